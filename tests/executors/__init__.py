"""Tests of who carries out stages."""
