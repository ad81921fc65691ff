"""The measuring engine: a campaign from its request to its report.

In reading order:

- ``options`` (as given) and ``user_input`` (the files that they name) make one ``request``.
- ``plan`` opens the ``backend`` and has ``candidates`` selected, by default a ``spread`` of them.
- ``campaign`` runs it: ``prepare`` builds and tries, ``search`` and ``comparison`` measure blocks.
- ``session`` runs a block again where an engine was lost; ``runner`` runs one block and stores it.

What is measured is in ``indicators`` and ``program``; locks of the host and its CPUs are in
``host``; what is resolved for, in ``targets``. ``sdist_wheels`` builds what has no wheel,
``hybrids`` proposes stacks to ``bisect``, ``installed`` reads an environment as a lock.
"""
