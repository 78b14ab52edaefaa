"""Processors of the test policies: LeRobot's usual ones."""

from lerobot.processor import make_default_pre_post_processors


def make_processors(config, dataset_stats=None):
    return make_default_pre_post_processors(config, dataset_stats)


make_tiny_flow_pre_post_processors = make_processors
make_tiny_leaky_pre_post_processors = make_processors
make_tiny_mute_pre_post_processors = make_processors
make_tiny_unlisted_pre_post_processors = make_processors
