// The waiting page with a script: shows the line as it moves and goes in when called. Without it the page reloads itself.
"use strict";
(() => {
  const room = document.getElementById("room");
  const base = room.dataset.base;
  const shown = (id, text) => {
    const element = document.getElementById(id);
    if (element && element.textContent !== text) element.textContent = text;
  };
  for (const time of document.querySelectorAll("time")) {
    time.textContent = new Date(time.dateTime).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
  }

  const words = (range) => {
    if (!range) return "not known now";
    const [low, high] = [Math.floor(range[0] / 60), Math.ceil(range[1] / 60)];
    if (range[1] <= 60) return "less than a minute";
    if (low === high || low === 0) return high > 1 ? `up to ${high} minutes` : "about a minute";
    return `${low} to ${high} minutes`;
  };

  const show = (mine) => {
    document.getElementById("offline").hidden = true;
    if (mine.state !== room.dataset.state) {
      location.reload();
      return;
    }
    if (mine.state === "waiting") {
      shown("place", mine.place.toLocaleString());
      shown("ahead", mine.ahead.toLocaleString());
      shown("wait", words(mine.wait_seconds));
      document.getElementById("progress").value = mine.place - mine.ahead - 1;
    }
    again(mine.poll_after_seconds);
  };

  const ask = async () => {
    try {
      const answer = await fetch(`${base}/place`, { headers: { Accept: "application/json" }, cache: "no-store" });
      if (answer.status === 401 || answer.status === 403) location.reload();
      else if (answer.ok) show(await answer.json());
      else again(Number(answer.headers.get("Retry-After")) || 5);
    } catch {
      document.getElementById("offline").hidden = false;
      again(5);
    }
  };

  let timer = 0;
  const again = (seconds) => {
    clearTimeout(timer);
    timer = setTimeout(ask, seconds * 1000 * (document.hidden ? 3 : 1));
  };

  const enter = async () => {
    const form = document.getElementById("enter");
    try {
      const answer = await fetch(form.action, { method: "POST", headers: { Accept: "application/json" } });
      if (answer.status === 200 || answer.status === 201) location.assign(form.elements.return.value);
      else if (answer.status === 410) location.reload();
      else setTimeout(enter, 1000 * (Number(answer.headers.get("Retry-After")) || 3));
    } catch {
      document.getElementById("offline").hidden = false;
      setTimeout(enter, 5000);
    }
  };

  const state = room.dataset.state;
  if (state === "called") {
    document.getElementById("heading").focus();
    enter();
  } else if (state === "entered" || state === "waiting") {
    again(1);
    document.addEventListener("visibilitychange", () => document.hidden || again(0));
  } else if (state === "" && document.querySelector("form") === null) {
    setTimeout(() => location.reload(), 10000);
  }
})();
