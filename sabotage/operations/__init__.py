"""Operations on the runs of a store in any order, and a plain model that says what each of them has to come to."""
