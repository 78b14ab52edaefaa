"""Processors of the stamped policy: LeRobot's usual ones."""

from lerobot.processor import make_default_pre_post_processors


def make_stamped_pre_post_processors(config, dataset_stats=None):
    return make_default_pre_post_processors(config, dataset_stats)
