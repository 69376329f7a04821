"""A cluster: several nodes behind one runtime, in which a lost node is no more than some lost workers."""
