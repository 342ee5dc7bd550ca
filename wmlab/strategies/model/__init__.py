"""The strategies as pure rules: one file a family; `strategy` says what each of them is."""
