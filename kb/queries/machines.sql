-- On which machines was something measured, and how much? No parameters.
SELECT substr(machines.id, 1, 12) AS machine, machines.identity,
       count(inspections.id) AS inspections
FROM machines LEFT JOIN inspections ON inspections.machine_id = machines.id
GROUP BY machines.id ORDER BY machines.id;
