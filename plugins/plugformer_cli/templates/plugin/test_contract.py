"""The component fulfills the contract of its kind; add a test of its formula."""

from plugformer_testing import contract_tests

test_contract = contract_tests("new_kind/new_component")
