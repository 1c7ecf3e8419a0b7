-- One row changed in a transaction of its own: what a durable commit costs on this disk.
UPDATE bench_floor SET count = count + 1 WHERE id = 1;
