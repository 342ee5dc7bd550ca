"""The watermark rules of Pravega as pure functions on frozen values: no clock, file, randomness or table.

Each module is one mathematical object or one rule and names its source: the design text PDP-33 (Pravega Watermarking)
and the upstream class that implements it. Times are 64-bit integers in the unit of the writers; clock times end in
`_ms`; offsets and revisions are bytes; unknown is None.
"""
