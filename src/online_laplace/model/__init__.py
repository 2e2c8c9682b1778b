"""Networks over flat weights, their Jacobians, and the tangent model."""
