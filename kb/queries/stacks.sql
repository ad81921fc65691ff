-- Which stacks are known, on which Python, with how many inspections that ended well? No parameters.
SELECT stacks.id, stacks.python, stacks.distribution, stacks.settings,
       (SELECT count(*) FROM lock_artifacts AS pins WHERE pins.lock_id = stacks.lock_id) AS packages,
       (SELECT count(*) FROM inspections WHERE stack_id = stacks.id) AS inspections,
       (SELECT count(*) FROM inspections WHERE stack_id = stacks.id AND outcome = 'ok') AS ok
FROM stacks ORDER BY stacks.id;
