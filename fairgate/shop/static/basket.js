// Counts the basket's time down from the number of seconds that the server measured, so a wrong local clock is harmless.
// When it ends the page is asked again: the server says what became of the basket.
"use strict";

const clock = document.querySelector("[data-seconds-left]");
const bar = document.querySelector("[data-bar]");
const announce = document.querySelector("[data-announce]");

if (clock) {
  const endsAt = performance.now() + Number(clock.dataset.secondsLeft) * 1000;
  let announced = false;
  const timer = setInterval(() => {
    const left = Math.max(0, Math.ceil((endsAt - performance.now()) / 1000));
    clock.textContent = `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}`;
    bar.value = left;
    if (left <= 30 && !announced) {
      announced = true;
      announce.textContent = "Less than half a minute left.";
    }
    if (left === 0) {
      clearInterval(timer);
      location.reload();
    }
  }, 500);
}

for (const form of document.forms) {
  form.addEventListener("submit", () => {
    // A second click would be harmless, since the form carries its key; the label says that the first one counted.
    const button = form.querySelector("button");
    button.setAttribute("aria-busy", "true");
    button.textContent = "One moment …";
  });
}
