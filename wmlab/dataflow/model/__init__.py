"""Keyed watermarks over a dataflow: the rules of Hazelcast Jet as pure functions on frozen values."""
