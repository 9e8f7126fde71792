"""`make faults` takes ten minutes; that every fault can still be made is seen in a moment."""

from tests.deliberate_faults import FAULTS, check_texts


def test_what_the_faults_replace_occurs_once():
    check_texts(FAULTS)
