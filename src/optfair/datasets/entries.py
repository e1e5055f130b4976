"""List the data sets of the catalogue: content, source, licence and files."""

from __future__ import annotations

from typing import Any

from optfair.datasets.schema import Entry, SourceFile

_UCI: dict[str, Any] = {
    "licence": "CC BY 4.0",
    "page": "https://archive.ics.uci.edu/dataset/2/adult",
    "citation": (
        "Becker, B. and Kohavi, R. (1996). Adult [Dataset]. UCI Machine Learning Repository. "
        "https://doi.org/10.24432/C5XW20. Under https://creativecommons.org/licenses/by/4.0/; modified as described "
        "below."
    ),
}
_INEP: dict[str, Any] = {
    "licence": "open data of INEP",
    "page": "https://www.gov.br/inep/pt-br/acesso-a-informacao/dados-abertos/microdados/enem",
    "citation": "INEP, Microdados do Enem.",
}
_CENSUS: dict[str, Any] = {
    "licence": "public domain (US Census Bureau)",
    "page": "https://www.census.gov/programs-surveys/acs/microdata.html",
    "citation": "US Census Bureau, American Community Survey 2018, 1-year public use microdata sample (PUMS).",
}

# The 50 states and Puerto Rico, in the order of folktables; the District of Columbia is not among them.
STATES = {
    "AL": "01", "AK": "02", "AZ": "04", "AR": "05", "CA": "06", "CO": "08", "CT": "09", "DE": "10", "FL": "12",
    "GA": "13", "HI": "15", "ID": "16", "IL": "17", "IN": "18", "IA": "19", "KS": "20", "KY": "21", "LA": "22",
    "ME": "23", "MD": "24", "MA": "25", "MI": "26", "MN": "27", "MS": "28", "MO": "29", "MT": "30", "NE": "31",
    "NV": "32", "NH": "33", "NJ": "34", "NM": "35", "NY": "36", "NC": "37", "ND": "38", "OH": "39", "OK": "40",
    "OR": "41", "PA": "42", "RI": "44", "SC": "45", "SD": "46", "TN": "47", "TX": "48", "UT": "49", "VT": "50",
    "VA": "51", "WA": "53", "WV": "54", "WI": "55", "WY": "56", "PR": "72",
}  # fmt: skip
_PUMS = "https://www2.census.gov/programs-surveys/acs/data/pums/2018/1-Year"
_ACS_FILE = "acsincome2018/acsincome2018_46states_binary.parquet"
_FIVE_RACES = "race: white, black, American Indian or Alaska native (AIAN), asian + Pacific islander, other + mixed (5)"

CELEBA_ATTRIBUTES = (
    "5_o_Clock_Shadow", "Arched_Eyebrows", "Attractive", "Bags_Under_Eyes", "Bald", "Bangs", "Big_Lips", "Big_Nose",
    "Black_Hair", "Blond_Hair", "Blurry", "Brown_Hair", "Bushy_Eyebrows", "Chubby", "Double_Chin", "Eyeglasses",
    "Goatee", "Gray_Hair", "Heavy_Makeup", "High_Cheekbones", "Male", "Mouth_Slightly_Open", "Mustache",
    "Narrow_Eyes", "No_Beard", "Oval_Face", "Pale_Skin", "Pointy_Nose", "Receding_Hairline", "Rosy_Cheeks",
    "Sideburns", "Smiling", "Straight_Hair", "Wavy_Hair", "Wearing_Earrings", "Wearing_Hat", "Wearing_Lipstick",
    "Wearing_Necklace", "Wearing_Necktie", "Young",
)  # fmt: skip
_CELEBA_PAGE = "http://mmlab.ie.cuhk.edu.hk/projects/CelebA.html"
_DRIVE = "https://drive.usercontent.google.com/download?id={}&export=download&confirm=t"
_CELEBA_TERMS = (
    f"CelebA may be used for non-commercial research only; loading it means agreeing to the terms at {_CELEBA_PAGE}."
)
_CELEBA_BY_HAND = f"{_CELEBA_TERMS} The files are listed there under Align&Cropped Images and under Anno."
_TORCHVISION = "torchvision 0.29.2, datasets/celeba.py"

_ENTRY_LIST = [
    Entry(
        name="adult",
        title="Adult: income in the US census of 1994, prepared as by the authors of the paper",
        task="income above 50,000 dollars (2 classes)",
        groups="sex (2); or race: white, other (2); or sex × black, white (4)",
        people="48,842",
        reader="adult:income",
        sensitive=("sex", "race", "sex-race"),
        embedded=True,
        **_UCI,
    ),
    Entry(
        name="adult-occupation",
        title="Adult: kind of work in the US census of 1994",
        task="occupation: management, professional, clerical+sales, manual, service (5 classes)",
        groups="sex × white, other (4); or one of them (2)",
        people="46,033",
        reader="adult:occupation",
        sensitive=("sex-race", "sex", "race"),
        embedded=True,
        **_UCI,
    ),
    Entry(
        name="enem",
        title="ENEM 2020: the Brazilian secondary-school exam",
        task="fifth of the humanities score (5 classes)",
        groups="race: white, black, brown, yellow, indigenous (5); or race pooled (3); or sex (2)",
        people="at most 1,400,000",
        reader="enem:enem_2020",
        sensitive=("race", "race-pooled", "sex"),
        files=(
            SourceFile(
                "enem/microdados_enem_2020.zip",
                url="https://download.inep.gov.br/microdados/microdados_enem_2020.zip",
                by_hand="Its member DADOS/MICRODADOS_ENEM_2020.csv alone, as enem/MICRODADOS_ENEM_2020.csv, is enough.",
                unpacked="enem/MICRODADOS_ENEM_2020.csv",
            ),
        ),
        **_INEP,
    ),
    Entry(
        name="enem-2019",
        title="ENEM 2019 in the Brazilian states of Acre and Roraima: the secondary-school exam",
        task="fifth of the humanities score (5 classes)",
        groups="race pooled: white, black+brown, yellow+indigenous (3); or race (5); or sex (2)",
        people="23,763",
        reader="enem:enem_2019",
        sensitive=("race-pooled", "race", "sex"),
        local_files=("enem2019_ac_rr/enem2019_ac_rr.parquet",),
        stand_in_for="ENEM 2020",
        **_INEP,
    ),
    Entry(
        name="acs-income",
        title="ACSIncome: personal income in the American Community Survey of 2018, 50 states and Puerto Rico",
        task="fifth of the personal income (5 classes)",
        groups=f"{_FIVE_RACES}; or sex (2)",
        people="1,664,500",
        reader="acs:income",
        sensitive=("race", "sex"),
        files=tuple(
            SourceFile(f"acs-income/csv_p{state.lower()}.zip", url=f"{_PUMS}/csv_p{state.lower()}.zip")
            for state in STATES
        ),
        **_CENSUS,
    ),
    Entry(
        name="acs-income-binary",
        title="ACSIncome 2018 in 46 states (without California, Florida, New York and Texas)",
        task="income above 50,000 dollars (2 classes)",
        groups=f"{_FIVE_RACES}; or sex (2)",
        people="1,121,894",
        reader="acs:income_binary",
        sensitive=("race", "sex"),
        local_files=(_ACS_FILE,),
        stand_in_for="ACSIncome 2018 of 50 states and Puerto Rico, with five classes",
        **_CENSUS,
    ),
    Entry(
        name="acs-education",
        title="Education in ACSIncome 2018, 46 states (without California, Florida, New York and Texas)",
        task="education: no diploma, high school, some college, bachelor, higher (5 classes)",
        groups=f"{_FIVE_RACES}; or sex (2)",
        people="1,121,894",
        reader="acs:education",
        sensitive=("race", "sex"),
        local_files=(_ACS_FILE,),
        stand_in_for="ACSIncome 2018 of 50 states and Puerto Rico, with five classes",
        **_CENSUS,
    ),
    Entry(
        name="acs-government",
        title="Salaries of government employees in the American Community Survey of 2018",
        task="fifth of the salary (5 classes)",
        groups=f"{_FIVE_RACES}; or sex (2)",
        people="204,309",
        reader="acs:government",
        sensitive=("race", "sex"),
        local_files=("acs2018_gov_census/gov_census.parquet",),
        stand_in_for="ACSIncome 2018 of 50 states and Puerto Rico, with five classes",
        **_CENSUS,
    ),
    Entry(
        name="celeba",
        title="CelebA: photographs of faces with 40 attributes",
        task="Smiling × Big_Nose (4 classes), or any attributes (labels=)",
        groups="age: Young or not (2); or sex (2); or race: Pale_Skin or not (2); or any attributes",
        people="202,599",
        licence="non-commercial research only (terms of CelebA)",
        page=_CELEBA_PAGE,
        citation="Liu, Z., Luo, P., Wang, X. and Tang, X. (2015). Deep Learning Face Attributes in the Wild. ICCV.",
        terms=_CELEBA_TERMS,
        reader="faces:celeba",
        sensitive=("age", "sex", "race"),
        attributes=CELEBA_ATTRIBUTES,
        files=(
            SourceFile(
                "celeba/list_attr_celeba.txt",
                url=_DRIVE.format("0B7EVK8r0v71pblRyaVFSWGxPY0U"),
                by_hand=_CELEBA_BY_HAND,
                megabytes=27,
                checksum="md5:75e246fa4810816ffd6ee81facbd244c",
                checksum_origin=_TORCHVISION,
            ),
            SourceFile(
                "celeba/img_align_celeba.zip",
                url=_DRIVE.format("0B7EVK8r0v71pZjFTYXZWM3FlRnM"),
                by_hand=_CELEBA_BY_HAND,
                megabytes=1443,
                unpacked="celeba/img_align_celeba",
                checksum="md5:00d2c5bc6d35e252742224ab0c1e8fcb",
                checksum_origin=_TORCHVISION,
            ),
        ),
        local_files=("celeba/celeba_attributes.parquet", "celeba/celeba_first10k_images_89x109_jpeg.parquet"),
    ),
    Entry(
        name="utkface",
        title="UTKFace: photographs of faces with age, sex and race",
        task="age: 0-17, 18-29, 30-44, 45-59, 60+ (5 classes)",
        groups="race: white, black, asian, indian, other (5); or sex (2)",
        people="23,704",
        licence="non-commercial research only (terms of UTKFace)",
        page="https://susanqq.github.io/UTKFace",
        citation=(
            "Zhang, Z., Song, Y. and Qi, H. (2017). Age Progression/Regression by Conditional Adversarial "
            "Autoencoder. CVPR."
        ),
        reader="faces:utkface",
        sensitive=("race", "sex"),
        files=(
            SourceFile(
                "utkface/UTKFace.tar.gz",
                by_hand=(
                    "UTKFace may be used for non-commercial research only; 'Aligned&Cropped Faces' (UTKFace.tar.gz) is "
                    "at https://susanqq.github.io/UTKFace."
                ),
                megabytes=107,
                unpacked="utkface/UTKFace",
            ),
        ),
        local_files=("utkface/utkface_64x64_jpeg.parquet",),
    ),
    Entry(
        name="compas",
        title="COMPAS: risk scores of defendants in Broward County, Florida, 2013 and 2014",
        task="score_text: low, medium, high (3 classes); or label='two_year_recid' (2 classes)",
        groups="race: African-American, Caucasian, Hispanic, other (4); or sex (2)",
        people="6,172",
        licence="published by ProPublica without a licence text",
        page="https://github.com/propublica/compas-analysis",
        citation="Angwin, J., Larson, J., Mattu, S. and Kirchner, L. (2016). Machine Bias. ProPublica.",
        reader="compas:compas",
        sensitive=("race", "sex"),
        files=(
            SourceFile(
                "compas/compas-scores-two-years.csv",
                url=("https://raw.githubusercontent.com/propublica/compas-analysis/master/compas-scores-two-years.csv"),
                megabytes=2.5,
            ),
        ),
        local_files=("compas/compas-scores-two-years.parquet",),
    ),
]
ENTRIES = {entry.name: entry for entry in _ENTRY_LIST}
