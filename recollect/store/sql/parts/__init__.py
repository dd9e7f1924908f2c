"""The parts of `SqlStore`, one for each part of the contract in `store/contract/`."""
