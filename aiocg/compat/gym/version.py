"""The version of Gym whose interface this is."""

VERSION = "0.21.0"
