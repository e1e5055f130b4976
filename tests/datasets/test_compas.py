"""COMPAS, on a small file written as its source does."""

from optfair import datasets
from tests.datasets.files import COMPAS_CSV, DEFENDANTS, check_table, compas_csv, write


def test_compas(data_folder):
    write(data_folder / COMPAS_CSV, compas_csv(DEFENDANTS))
    data = check_table(datasets.load("compas", download=False))
    assert data.y.tolist() == ["0 low", "2 high", "1 medium", "1 medium", "0 low", "0 low"]
    assert data.sensitive_features.tolist() == ["Caucasian", "African-American", "other", "other", "Hispanic", "other"]
    counts = ["age", "priors_count", "juv_fel_count", "juv_misd_count", "juv_other_count"]
    assert list(data.X.columns) == [*counts, "c_charge_degree=F", "sex=Female"]
    assert data.X.iloc[1].tolist() == [34, 4, 0, 1, 2, 0, 1] and data.X.iloc[2].tolist() == [19, 0, 0, 1, 2, 1, 0]
    by_sex = check_table(datasets.load("compas", sensitive="sex", label="two_year_recid"))
    assert by_sex.y.tolist() == ["yes", "no", "no", "no", "yes", "no"] and by_sex.group_names == ["female", "male"]
    assert not by_sex.X.filter(like="sex").columns.size and by_sex.X["race=other"].tolist() == [0, 0, 1, 1, 0, 1]
