-- Forget all that is hot of an epoch that has ended.
-- KEYS[1] the room's {room}:line of that epoch; KEYS[2] … every other key of it, as each verb's file tells.
-- Answers {'forgotten', how many keys there were}.
-- Safe under races: Postgres names another epoch as the room's, so no verb but a late worker's goes by these; it then finds
--   no generation and is told to try again. Freed beside, so that a large room holds nobody up.
return { 'forgotten', redis.call('UNLINK', unpack(KEYS)) }
