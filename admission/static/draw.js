// Checks a place in a draw where the buyer's own browser can: the same bytes as docs/draw.md, with a SHA-256 of its own,
// since crypto.subtle is missing on pages without TLS. Defines window.fairgateDraw and does nothing by itself.
"use strict";
(() => {
  const text = (words) => new TextEncoder().encode(words);
  const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  const bytes = (digits) => {
    if (!/^([0-9a-f]{2})*$/.test(digits)) throw new Error("not hex");
    return Uint8Array.from(digits.match(/../g) || [], (two) => parseInt(two, 16));
  };
  const base64url = (letters) =>
    Uint8Array.from(atob(letters.replace(/-/g, "+").replace(/_/g, "/")), (letter) => letter.charCodeAt(0));
  const join = (...parts) => {
    const joined = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
    let at = 0;
    for (const part of parts) {
      joined.set(part, at);
      at += part.length;
    }
    return joined;
  };
  const eight = (number) => {
    const view = new DataView(new ArrayBuffer(8));
    view.setBigUint64(0, BigInt(number));
    return new Uint8Array(view.buffer);
  };
  const first64 = (digest) => new DataView(digest.buffer).getBigUint64(0);

  // SHA-256 (FIPS 180-4); its constants are the roots of the first primes.
  const primes = [];
  for (let n = 2; primes.length < 64; n++) if (primes.every((prime) => n % prime)) primes.push(n);
  const fraction = (root) => Math.floor((root - Math.floor(root)) * 2 ** 32) | 0;
  const K = primes.map((prime) => fraction(Math.cbrt(prime)));
  const START = primes.slice(0, 8).map((prime) => fraction(Math.sqrt(prime)));
  const turn = (word, by) => (word >>> by) | (word << (32 - by));
  const sha256 = (message) => {
    const padded = new Uint8Array(((message.length + 72) >> 6) << 6);
    padded.set(message);
    padded[message.length] = 0x80;
    const view = new DataView(padded.buffer);
    view.setBigUint64(padded.length - 8, BigInt(message.length) * 8n);
    const state = Int32Array.from(START);
    const w = new Int32Array(64);
    for (let block = 0; block < padded.length; block += 64) {
      for (let i = 0; i < 16; i++) w[i] = view.getInt32(block + 4 * i);
      for (let i = 16; i < 64; i++) {
        const [x, y] = [w[i - 15], w[i - 2]];
        const s0 = turn(x, 7) ^ turn(x, 18) ^ (x >>> 3);
        const s1 = turn(y, 17) ^ turn(y, 19) ^ (y >>> 10);
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
      }
      let [a, b, c, d, e, f, g, h] = state;
      for (let i = 0; i < 64; i++) {
        const one = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + K[i] + w[i]) | 0;
        const two = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
        [h, g, f, e, d, c, b, a] = [g, f, e, (d + one) | 0, c, b, a, (one + two) | 0];
      }
      [a, b, c, d, e, f, g, h].forEach((word, i) => { state[i] += word; });
    }
    const digest = new DataView(new ArrayBuffer(32));
    state.forEach((word, i) => digest.setInt32(4 * i, word));
    return new Uint8Array(digest.buffer);
  };

  const commitment = (proof) => {
    const beacon = proof.beacon ? `${proof.beacon.source}\n${proof.beacon.round}\n${proof.beacon.fallback}\n` : "";
    return sha256(join(text(`fairgate draw commitment\n${proof.room}\n${proof.epoch}\n${beacon}`), bytes(proof.secret)));
  };
  const key = (proof) =>
    sha256(join(
      text(`fairgate draw\n${proof.room}\n${proof.epoch}\n${proof.entries}\n`),
      bytes(proof.secret + (proof.root || "") + (proof.beacon_value || "")),
    ));
  const leaf = (room, epoch, entry, clientId) =>
    sha256(join([0], text(`fairgate draw leaf\n${room}\n${epoch}\n${entry}\n`), base64url(clientId)));

  // An entry without the gaps below it; inside a gap that of the first entry behind it.
  const dense = (entry, gaps) => {
    let below = 0;
    for (const [first, last] of gaps) {
      if (entry > last) below += last - first + 1;
      else return Math.min(entry, first) - below;
    }
    return entry - below;
  };

  const shuffled = (secret, entries) => {
    const places = Array.from({ length: entries }, (_, i) => i + 1);
    let counter = 0;
    const below = (bound) => {
      const fair = 2n ** 64n - (2n ** 64n % BigInt(bound));
      for (;;) {
        const number = first64(sha256(join(secret, text("shuffle"), eight(counter++))));
        if (number < fair) return Number(number % BigInt(bound));
      }
    };
    for (let last = entries - 1; last > 0; last--) {
      const other = below(last + 1);
      [places[last], places[other]] = [places[other], places[last]];
    }
    return places;
  };

  const feistel = (secret, bits, value) => {
    const lowSize = 2 ** (bits >> 1);
    const highSize = 2 ** (bits - (bits >> 1));
    let low = value % lowSize;
    let high = Math.floor(value / lowSize);
    const mix = (round, half, other, size) => {
      const word = first64(sha256(join(secret, [round], eight(half))));
      return (other ^ Number(word % BigInt(size))) >>> 0;
    };
    for (let round = 0; round < 10; round++) {
      if (round % 2 === 0) high = mix(round, low, high, highSize);
      else low = mix(round, high, low, lowSize);
    }
    return high * lowSize + low;
  };

  const drawn = (secret, entries, entry) => {
    if (entries < 1000) return shuffled(secret, entries)[entry - 1];
    const bits = (entries - 1).toString(2).length;
    let place = feistel(secret, bits, entry - 1);
    while (place >= entries) place = feistel(secret, bits, place);
    return place + 1;
  };

  // The place of an entry by a proof, or null before the draw.
  const place = (proof, entry) => {
    if (!proof.secret || !proof.entries) return null;
    return drawn(key(proof), proof.entries, Math.min(dense(entry, proof.gaps), proof.entries));
  };

  // Whether a path leads from a leaf to the root (RFC 9162, section 2.1.3.2).
  const includes = (root, size, entry, own, path) => {
    let [node, at, last] = [own, entry - 1, size - 1];
    if (at < 0 || at > last) return false;
    for (const digits of path) {
      if (last === 0) return false;
      const sibling = bytes(digits);
      if (at % 2 === 1 || at === last) {
        node = sha256(join([1], sibling, node));
        while (at % 2 === 0 && at !== 0) [at, last] = [at / 2, Math.floor(last / 2)];
      } else {
        node = sha256(join([1], node, sibling));
      }
      [at, last] = [Math.floor(at / 2), Math.floor(last / 2)];
    }
    return last === 0 && hex(node) === root;
  };

  // What a buyer can check of a draw: `proof` from …/draw, `inclusion` from …/draw/entries/{entry} or null, and the ticket's
  // own entry and client_id. Each answer is true, false, or null where it cannot be judged (yet).
  const verify = (proof, inclusion, entry, clientId) => ({
    committed: proof.secret ? hex(commitment(proof)) === proof.commitment : null,
    included: proof.root && inclusion
      ? includes(proof.root, proof.last_entry, entry, leaf(proof.room, proof.epoch, entry, clientId), inclusion.path)
      : null,
    place: place(proof, entry),
    entries: proof.entries,
    beacon: proof.beacon_value ? `${proof.beacon.source}/public/${proof.beacon.round}` : null,
    binds: proof.binds,
  });

  // The same with what the server publishes below `base`, a room's address.
  const check = async (base, epoch, entry, clientId) => {
    const get = async (path) => {
      const answer = await fetch(`${base}/draw${path}?epoch=${epoch}`, { headers: { Accept: "application/json" } });
      return answer.ok ? answer.json() : null;
    };
    const proof = await get("");
    return proof && verify(proof, proof.root ? await get(`/entries/${entry}`) : null, entry, clientId);
  };

  window.fairgateDraw = { check, verify, place, includes, commitment, key, leaf, sha256, hex };
})();
