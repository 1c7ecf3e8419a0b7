-- Every pass that a room gave, in its present epoch. $1 the room.
SELECT claim.ticket_id, claim.jti, claim.issued_at AS at
  FROM line.claims AS claim JOIN line.rooms AS room ON room.name = claim.room AND room.epoch = claim.epoch
 WHERE claim.room = $1;
