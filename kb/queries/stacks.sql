-- Which stacks are known, on which Python, with how many inspections that ended well? No parameters.
SELECT stacks.id, stacks.python, stacks.distribution, stacks.settings,
       (SELECT count(*) FROM lock_artifacts AS pins WHERE pins.lock_id = stacks.lock_id) AS packages,
       count(i.key) AS inspections, coalesce(sum(i.outcome = 'ok'), 0) AS ok
FROM stacks LEFT JOIN inspection_rows AS i ON i.stack_key = stacks.key
GROUP BY stacks.key ORDER BY stacks.id;
