"""A cost model learned from a file of transitions, and its use by searches; docs/cost_model.md says how."""
