"""Progress by origin, sequence and chunk: the rules of NebulaStream.

Sources cut records into tuple buffers, and workers execute them in any order. Four identifiers on each buffer are
enough to know how far time has come and which windows may fire. Buffers, rules and effects are frozen. A tracker and
the operators are changed in place by the one that steps them; they know no clock, no chance and no I/O. Each module
names its source: the design text "Watermarking and Progress" and, where the engine differs, its class.

Watermarks are exclusive: W promises that no record with a time below W is still to come. Unknown is None; NebulaStream
itself writes 0 for it.
"""
