-- What does a stack hold? Parameter stack: the beginning of its id.
SELECT substr(stacks.id, 1, 12) AS stack, pins.name, pins.version
FROM stacks JOIN lock_artifacts AS pins ON pins.lock_id = stacks.lock_id
WHERE substr(stacks.id, 1, length(:stack)) = :stack
ORDER BY stacks.id, pins.name;
