"""Datasets whose programs are made when they are asked for, each from a seed."""
