"""Progress by origin, sequence and chunk: the rules of NebulaStream as pure functions on frozen values.

Sources cut records into tuple buffers, workers execute them in any order, and four identifiers on each buffer are
enough to know how far time has come and which windows may fire. Each module is one rule or one mathematical object
and names its source: the design text "Watermarking and Progress" and, where the engine differs, its class.

Watermarks are exclusive: W promises that no record with a time below W is still to come. Unknown is None; NebulaStream
itself writes 0 for it.
"""
