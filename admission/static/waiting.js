// The waiting page with a script: works place and wait out from the public document, goes in when called, and mends itself
// after a lost network, a slept device or another tab. Without it the page reloads itself and has buttons for everything.
"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const all = (selector) => document.querySelectorAll(selector);
  const room = byId("room");
  const { base, target } = room.dataset;
  const words = JSON.parse(room.dataset.words);
  const language = document.documentElement.lang;
  const number = new Intl.NumberFormat(language);
  const title = document.title;
  const held = ["entered", "waiting", "called", "admitted"];
  const stopping = ["paused", "rejecting", "sold-out", "all-held"];

  let line = JSON.parse(room.dataset.status);
  let mine = JSON.parse(room.dataset.mine);
  let state = room.dataset.state;
  let least = { place: Infinity, ahead: Infinity };
  let failures = 0;
  let timer = 0;
  let asking = false;
  let entering = false;
  let warned = false;
  let heardAt = -Infinity;
  let hiddenAt = 0;

  // The server's clock: the freshest document counts, and it never runs ahead.
  let lead = -Infinity;
  const now = () => lead + performance.now();
  const date = (text) => { lead = Math.max(lead, Date.parse(text) - performance.now()); };
  date(line.as_of);
  let placeAt = now() + line.poll.place_seconds * 1000;

  const tell = (element, text) => { if (element && element.textContent !== text) element.textContent = text; };
  const toggle = (element, shown) => { if (element && element.hidden === shown) element.hidden = !shown; };
  const fill = (text, values) => text.replace(/\{(\w+)\}/g, (_, name) => values[name]);
  const later = () => 1 + line.poll.jitter * Math.random();

  const called = () => {
    const serving = line.serving;
    if (!serving) return 0;
    const elapsed = Math.max(0, Math.min(now(), Date.parse(serving.valid_until)) - Date.parse(serving.since));
    return Math.floor(Math.min(serving.base + (serving.rate_per_minute * elapsed) / 60000, serving.called_max));
  };

  // The wait in seconds, or null where nothing honest can be said.
  const range = () => {
    if (!line.seconds_per_place || line.reasons.includes("away")) return null;
    const opening = line.phase === "prequeue" && line.opens_at ? Math.max(0, (Date.parse(line.opens_at) - now()) / 1000) : 0;
    return line.seconds_per_place.map((seconds) => opening + (least.ahead + 1) * seconds);
  };

  const waitWords = (seconds) => {
    if (!seconds) return words.unknown;
    const [low, high] = [Math.floor(seconds[0]), Math.ceil(seconds[1])];
    let text = words.soon;
    if (high > 60) {
      const [unit, size] = high > 5400 ? ["hours", 3600] : ["minutes", 60];
      const [from, to] = [Math.floor(low / size), Math.ceil(high / size)];
      const exact = from !== 0 && from !== to;
      const said = exact ? words[unit] : to === 1 ? words.minute : words[`${unit}_up_to`];
      text = fill(said, { low: number.format(from), high: number.format(to) });
    }
    return line.reasons.some((reason) => stopping.includes(reason)) ? fill(words.resumed, { wait: text }) : text;
  };

  // Screen readers hear of what matters: at most once a minute, but for changes of state.
  const say = (text, at_once) => {
    if (!at_once && performance.now() - heardAt < 60000) return;
    heardAt = performance.now();
    tell(byId("heard"), text);
  };

  const times = (within) => {
    for (const time of within.querySelectorAll("time")) {
      if (time.dateTime) tell(time, new Date(time.dateTime).toLocaleString(language, { dateStyle: "medium", timeStyle: "medium" }));
    }
  };
  const setTime = (id, moment) => {
    const time = document.querySelector(`${id} time`);
    if (time && moment && time.dateTime !== moment) time.dateTime = moment;
  };

  // A reload is the way out when the server must tell anew what is the matter; never in a storm.
  const reload = () => {
    const before = Number(sessionStorage.getItem("fairgate-reload") || 0);
    const wait = Math.max(0, before + 10000 - Date.now()) * later();
    timer = setTimeout(() => {
      sessionStorage.setItem("fairgate-reload", String(Date.now()));
      location.reload();
    }, wait);
  };

  const show = () => {
    tell(byId("message"), line.message || "");
    toggle(byId("message"), Boolean(line.message));
    for (const notice of all("[data-reason]")) toggle(notice, held.includes(state) && line.reasons.includes(notice.dataset.reason));
    if (!mine) return;
    if (mine.state !== state) {
      state = mine.state;
      for (const section of all("[data-show]")) toggle(section, section.dataset.show === state);
      toggle(document.querySelector("[data-holds]"), held.includes(state));
      byId(state).focus();
      document.title = state === "called" ? `● ${words.turn}` : title;
      warned = false;
    }
    if (state === "waiting") showPlace();
    setTime("[data-show=called]", mine.turn_ends_at);
    setTime("[data-show=admitted]", mine.pass_expires_at);
    setTime("#grace", mine.grace_ends_at);
    toggle(byId("more"), Boolean(mine.extensions_left));
    toggle(byId("grace"), Boolean(mine.grace_ends_at));
    toggle(byId("verify"), Boolean(room.dataset.entry && line.draw && line.draw.secret));
    times(room);
    if (state === "called") turn();
  };

  const showPlace = () => {
    least.place = Math.min(least.place, mine.place);
    least.ahead = Math.min(least.ahead, mine.ahead, Math.max(0, least.place - called() - 1));
    const wait = waitWords(range());
    tell(byId("place"), number.format(least.place));
    tell(byId("ahead"), number.format(least.ahead));
    tell(byId("wait"), wait);
    byId("progress").max = Math.max(1, least.place);
    byId("progress").value = least.place - least.ahead - 1;
    say(fill(words.ahead, { ahead: number.format(least.ahead), wait }));
  };

  const get = async (path) => {
    const answer = await fetch(`${base}/${path}`, { headers: { Accept: "application/json" } });
    if (answer.status === 401 || answer.status === 403) {
      reload();
      return null;
    }
    if (!answer.ok) throw new Error(answer.headers.get("Retry-After") || "5");
    return answer.json();
  };

  const readLine = async () => {
    const fresh = await get("status");
    if (!fresh || fresh.epoch < line.epoch) return; // an answer of before a reset, out of some cache
    const moved = ["epoch", "generation", "passed_over"].some((name) => fresh[name] !== line[name]);
    const drawn = Boolean(fresh.draw && fresh.draw.secret) && !(line.draw && line.draw.secret);
    if (moved || drawn) placeAt = Math.min(placeAt, now() + Math.random() * fresh.poll.spread_seconds * 1000);
    if (fresh.epoch > line.epoch || (state === "join" && fresh.phase !== room.dataset.phase)) reload();
    date(fresh.as_of);
    line = fresh;
  };

  const near = () => mine.place !== null && Math.max(called(), line.serving ? line.serving.called_max : 0) >= mine.place;
  const readPlace = async () => {
    if (!mine || (now() < placeAt && (state === "entered" || (state === "waiting" && !near())))) return;
    placeAt = now() + line.poll.place_seconds * 1000;
    const fresh = await get("place");
    if (!fresh) return;
    date(fresh.server_time);
    mine = fresh;
  };

  const pause = () => {
    const { near_seconds, far_seconds, share } = line.poll;
    let seconds = far_seconds;
    if (state === "join") seconds = 10;
    else if (!mine) seconds = far_seconds;
    else if (!["entered", "waiting"].includes(state)) seconds = mine.poll_after_seconds;
    else if (state === "entered") seconds = line.opens_at ? (Date.parse(line.opens_at) - now()) / 1000 / share : far_seconds;
    else seconds = near() ? near_seconds : (range() || [0])[0] / share;
    seconds = Math.min(Math.max(seconds, near_seconds), far_seconds) * later();
    const due = Math.max(0.2, (placeAt - now()) / 1000);
    return mine ? Math.min(seconds, due) : seconds;
  };

  const step = async () => {
    if (asking) return;
    clearTimeout(timer);
    timer = 0;
    asking = true;
    let seconds;
    try {
      await readLine();
      await readPlace();
      failures = 0;
      toggle(byId("offline"), false);
      show();
      seconds = pause();
    } catch (error) {
      failures += 1;
      seconds = Number(error.message) || Math.min(30, 2 ** failures) * later();
      if (!Number(error.message) && held.includes(state)) {
        toggle(byId("offline"), true);
        say(byId("offline").textContent, failures === 1);
      }
    }
    asking = false;
    if (!timer) timer = setTimeout(step, seconds * 1000);
  };
  const soon = () => {
    clearTimeout(timer);
    timer = setTimeout(step, 500 * Math.random());
  };

  // A turn: the clock is for the eye alone; whoever looks away is taken in before it ends.
  const left = () => Math.max(0, Math.round((Date.parse(mine.turn_ends_at) - now()) / 1000));
  const turn = () => {
    if (state !== "called") return;
    const seconds = left();
    toggle(byId("countdown"), true);
    tell(byId("countdown"), `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`);
    if (seconds < 60 && !warned) {
      warned = true;
      say(words.ending, true);
    }
    if (byId("auto").checked && (!document.hidden || seconds < 75)) enter();
  };
  setInterval(turn, 1000);

  const enter = async () => {
    if (entering) return;
    entering = true;
    let seconds = 3;
    try {
      const answer = await fetch(`${base}/passes`, { method: "POST", headers: { Accept: "application/json" } });
      if (answer.status === 200 || answer.status === 201) {
        location.assign(target);
        return;
      }
      if (answer.status === 410) placeAt = now();
      seconds = Number(answer.headers.get("Retry-After")) || 3;
    } catch {
      toggle(byId("offline"), true);
    }
    setTimeout(() => { entering = false; }, seconds * 1000);
    soon();
  };

  const verify = async () => {
    if (!window.fairgateDraw) {
      await new Promise((resolve, reject) => {
        const script = document.createElement("script");
        Object.assign(script, { src: room.dataset.draw, onload: resolve, onerror: reject });
        document.head.append(script);
      });
    }
    const found = await window.fairgateDraw.check(base, line.epoch, Number(room.dataset.entry), room.dataset.client);
    const wrong = found && (found.committed === false || found.included === false || (found.place !== null && mine.place !== null && found.place < mine.place));
    const right = found && found.committed && found.included && found.place !== null;
    tell(byId("verdict"), wrong ? words.false : right ? words.genuine : words.undecided);
    toggle(byId("verdict"), true);
  };
  byId("verify").addEventListener("click", () => verify().catch(() => {
    tell(byId("verdict"), words.undecided);
    toggle(byId("verdict"), true);
  }));

  // A double click is one; a page that comes back from the browser's memory may be clicked again.
  document.addEventListener("submit", (event) => {
    if (event.target.dataset.sent) event.preventDefault();
    event.target.dataset.sent = "yes";
  });
  addEventListener("pageshow", (event) => {
    for (const form of document.forms) delete form.dataset.sent;
    if (event.persisted) {
      entering = false;
      placeAt = now();
      soon();
    }
  });
  addEventListener("online", soon);
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      hiddenAt = performance.now();
      return;
    }
    if (performance.now() - hiddenAt > 60000) placeAt = now();
    soon();
  });

  const auto = byId("auto");
  const choice = `fairgate-auto-${base}`;
  auto.checked = sessionStorage.getItem(choice) !== "no";
  auto.addEventListener("change", () => sessionStorage.setItem(choice, auto.checked ? "yes" : "no"));
  for (const element of all(".script")) if (element.id !== "verify") element.hidden = false;

  // A code comes in the fragment, which no server is sent; it is taken out of the address at once.
  const code = /^#recovery=([\w-]{1,64})$/.exec(location.hash);
  if (code && byId("code")) {
    history.replaceState(null, "", location.pathname + location.search);
    byId("code").value = code[1];
    byId("code").closest("details").open = true;
    byId("code").focus();
  }

  if (state === "called" || document.activeElement === document.body) byId(state).focus();
  show();
  if (!["moved", "refused"].includes(state)) timer = setTimeout(step, 1000 * later());
})();
