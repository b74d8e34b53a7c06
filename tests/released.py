"""The authors' six checkpoints, by name."""

import pytest

CHECKPOINTS = [
    "exp_vanilla_drop0.1_hidden45_45678-model-66",
    "exp_vanilla_drop0.2_hidden100_45678-model-98",
    "exp_lstm_drop0.1_hidden50_12093-model-68",
    "exp_lstm_drop0.2_hidden60_45678-model-99",
    "exp_gatedpushpop_normalize_no_op_50_0.1_12345-model-97",
    "exp_gatedpushpop_normalize_no_op_45678_60_0.2-model-74",
]
every_checkpoint = pytest.mark.parametrize("checkpoint", CHECKPOINTS)
