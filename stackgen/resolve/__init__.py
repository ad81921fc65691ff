"""The exact space of stacks that requirements allow on a target.

`Requirements` say what a stack must satisfy. `Closure` collects all releases that could be part of
one, and says which index pages and metadata it needs for that; `Universe` is the complete result.
Its versions become bits of integers, its dependencies masks of them (`masks`), and the masks are
compiled into a counted decision diagram (`diagram`, `compilation`). `Space` counts, lists, samples
and restricts stacks by walks over the diagram (`walks`); `choose` orders them for exploration, and
`explain` says why there are none.
"""
