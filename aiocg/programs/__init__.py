"""Programs by the set: fetched ahead, made of a project, and measured."""
