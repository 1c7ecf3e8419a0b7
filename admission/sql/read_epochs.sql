-- The present epoch of every room. No parameters. Answers name, epoch.
-- Safe under races: one statement, one snapshot; an epoch only ever rises.
SELECT name, epoch FROM line.rooms;
