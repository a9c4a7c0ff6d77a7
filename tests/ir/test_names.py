"""Free names: the first number that is not taken, found without trying all again."""

import pytest

from qpasses.ir.graph import Taken, fresh


@pytest.mark.parametrize("kind", [set, Taken])
def test_a_name_gets_the_first_free_number(kind):
    taken = kind({"a", "a_3"})
    assert [fresh("a", taken) for _ in range(3)] == ["a_2", "a_4", "a_5"]
    assert [fresh("b", taken), fresh("b", taken), fresh("a_2", taken)] == ["b", "b_2", "a_2_2"]
    taken |= {"a_6", "b_3"}
    assert [fresh("a", taken), fresh("b", taken)] == ["a_7", "b_4"]


class Asked(Taken):
    """Counts how often it is asked for a name."""

    count = 0

    def __contains__(self, name):
        self.count += 1
        return super().__contains__(name)


def test_thousands_of_equal_names_take_linear_time():
    taken = Asked()
    assert [fresh("Relu", taken) for _ in range(1000)][-1] == "Relu_1000"
    assert taken.count < 3000
