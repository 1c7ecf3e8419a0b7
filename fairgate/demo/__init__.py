"""The main job: a whole onsale day on one machine, watched live and judged at its end."""
