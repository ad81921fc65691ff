-- Which versions of a package were tried, and how often did that end well? Parameter name: the package.
SELECT a.version, count(DISTINCT stacks.key) AS stacks, count(i.key) AS inspections,
       coalesce(sum(i.outcome = 'ok'), 0) AS ok
FROM artifacts AS a JOIN lock_pins ON lock_pins.artifact_key = a.key
JOIN locks ON locks.key = lock_pins.lock_key JOIN stacks ON stacks.lock_id = locks.id
LEFT JOIN inspection_rows AS i ON i.stack_key = stacks.key
WHERE a.name = :name
GROUP BY a.version ORDER BY a.version;
