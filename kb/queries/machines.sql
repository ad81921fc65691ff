-- On which machines was something measured, and how much? No parameters.
SELECT substr(machines.id, 1, 12) AS machine, machines.identity, count(i.key) AS inspections
FROM machines LEFT JOIN inspection_rows AS i ON i.machine_key = machines.key
GROUP BY machines.key ORDER BY machines.id;
