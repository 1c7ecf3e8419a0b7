-- What would be lost if a database were cleared. Answers one row: SKUs and rooms.
SELECT (SELECT count(*) FROM stock.skus) AS skus, (SELECT count(*) FROM line.rooms) AS rooms;
