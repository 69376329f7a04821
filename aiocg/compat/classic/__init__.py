"""The parts of OpenAI Gym 0.21 that CompilerGym and its scripts use; the spaces are based on Gymnasium's."""
