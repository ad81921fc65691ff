-- Which versions of a package were tried, and how often did that end well? Parameter name: the package.
SELECT pins.version, count(DISTINCT stacks.id) AS stacks, count(inspections.id) AS inspections,
       coalesce(sum(inspections.outcome = 'ok'), 0) AS ok
FROM lock_artifacts AS pins
JOIN stacks ON stacks.lock_id = pins.lock_id
LEFT JOIN inspections ON inspections.stack_id = stacks.id
WHERE pins.name = :name
GROUP BY pins.version ORDER BY pins.version;
