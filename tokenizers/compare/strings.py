"""Strings that a tokenizer meets, and those that it should not: the same ones for the same seed."""

import random
import unicodedata

from kinds import SENTENCES

# The first and the last letter of scripts.
SCRIPTS = [
    (0x41, 0x5A), (0x61, 0x7A), (0xC0, 0x17F), (0x180, 0x24F), (0x250, 0x2AF), (0x370, 0x3FF), (0x400, 0x4FF), (0x531, 0x587),
    (0x5D0, 0x5EA), (0x620, 0x6FF), (0x710, 0x74A), (0x904, 0x97F), (0x985, 0x9FB), (0xA05, 0xA74), (0xB85, 0xBEF), (0xE01, 0xE5B),
    (0xE81, 0xEDF), (0xF40, 0xFBC), (0x1000, 0x109F), (0x10A0, 0x10FF), (0x1100, 0x11FF), (0x1200, 0x137C), (0x13A0, 0x13FD),
    (0x1400, 0x167F), (0x16A0, 0x16EA), (0x1780, 0x17DD), (0x1820, 0x1878), (0x1D00, 0x1DBF), (0x1E00, 0x1EFF), (0x1F00, 0x1FFE),
    (0x2C00, 0x2C5F), (0x2D30, 0x2D67), (0x3041, 0x3096), (0x30A1, 0x30FF), (0x3105, 0x312F), (0x4E00, 0x9FFF), (0xA000, 0xA48C),
    (0xAB70, 0xABBF), (0xAC00, 0xD7A3), (0xFB00, 0xFB06), (0xFF21, 0xFF9D), (0x10330, 0x1034A), (0x10400, 0x1044F), (0x12000, 0x1236E),
    (0x1D400, 0x1D7FF), (0x1E900, 0x1E943), (0x20000, 0x2A6DF), (0x30000, 0x3134A),
]  # fmt: skip
MARKS = [(0x300, 0x36F), (0x483, 0x489), (0x591, 0x5C7), (0x610, 0x61A), (0x64B, 0x65F), (0x93C, 0x94D), (0x1AB0, 0x1ACE), (0x20D0, 0x20F0), (0xFE00, 0xFE0F)]
SPACES = [*"\t\n\v\f\r \x1c\x1d\x1e\x1f\x85\xa0\u1680\u180e\u2028\u2029\u202f\u205f\u3000\u200b\u2060\ufeff", *map(chr, range(0x2000, 0x200B))]
CONTROLS = [*map(chr, [*range(1, 32), *range(0x7F, 0xA0)]), *"\xad\u0600\u061c\u070f\u200c\u200d\u200e\u200f\u202a\u202e\u2061\u2066\ufff9\ufffc\ufffd\ufdd0\uffff",
            "\ue000", "\U000e0001", "\U000f0000", "\U0010ffff"]  # fmt: skip
PEOPLE = "👨👩👧👦🧑👶🕵🏃🤷💂🦸"
EMOJI = "😀😁🤣🫠🥹🐈🚀🎉🔥💯❤☺✌⚡☎♂♀✈🏳🏴🫨🪿"
DIGITS = ["0123456789", "٠١٢٣٤٥٦٧٨٩", "०१२३४५६७८९", "０１２３４５６７８９", "²³¹½¾⅓ⅷⅫ①⑳㊿𝟘𝟡〇一二三"]
PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~¡¿«»“”„‘’…–—·•§¶†‡‰′″‹›⁇、。「」！？（）ー～￥€£¥₿©®™°±×÷∞≠≤∑√∫∂∈←→⇒■□▲★♪✓�▁Ġ"
FOLDS = ["İstanbul", "ıI", "Straße STRASSE ẞ", "ſ", "K Å Ω", "ﬁn ﬃ ﬆ", "ǅ ǈ Ǆ", "ΑΣ Σ ς", "Ꭰ ꭰ", "ŉ ǰ ΐ", "Ǆemal", "㎏ ㈱ ㍿ ﷺ", "ｶﾞ ﾊﾟ", "Å Å Å", "각 각 ㄱㅏㄱ",
         "ⅷ Ⅷ", "Ⴀ ა Ა", "Ⓐ ⓐ", "𐐀 𐐨", "ố ố ố", "क़ क़", "אַ", "ﻻ ﻼ"]  # fmt: skip
CODE = ["for(int i=0;i<10;++i){a[i]*=2;}", "def f(x):\n    return x ** 2\n\n", "\t\tif (a && !b) {\r\n\t\t}\r\n", "SELECT * FROM t WHERE id='1'; --", "<div class=\"a\">\n  <p>&nbsp;</p>\n</div>",
        "https://example.org/a?b=c&d=%20#e", "user.name+tag@example.org", "x\\n\\t\\\\", "[[nodiscard]] auto&& v{1'000'000ull};", "#!/bin/sh\nset -e\n", "$1 $2 \\1 \\$ ${x} $$", "I'LL we'Ve DON'T 'S 'sa 't", "a_b__c ##ing ##", "▁▁a ▁ Ġa"]  # fmt: skip


class Strings:
    def __init__(self, seed, special):
        self.random = random.Random(seed)
        self.special = special
        self.sorts = [
            self.words, self.words, self.marks, self.emoji, self.spaces, self.controls, self.numbers, self.code, self.long, self.any,
            self.with_special, self.with_special, self.folds, self.sentence, self.sentence, self.cut, self.punctuation, self.mixed, self.mixed,
        ]  # fmt: skip

    def letters(self, ranges, count):
        first, last = self.random.choice(ranges)
        return "".join(chr(self.random.randint(first, last)) for _ in range(count))

    def word(self):
        return self.letters(SCRIPTS, self.random.choice([1, 1, 2, 3, 4, 5, 6, 8, 12]))

    def some(self, of, most=6):
        return [self.random.choice(of) for _ in range(self.random.randint(1, most))]

    def words(self):
        return self.random.choice([" ", " ", " ", "", "  ", "-", "\n", "、"]).join(self.word() for _ in range(self.random.randint(1, 8)))

    def marks(self):
        text = "".join(self.letters(SCRIPTS, 1) + self.letters(MARKS, self.random.choice([0, 1, 1, 2, 3, 5])) for _ in range(self.random.randint(1, 6)))
        return unicodedata.normalize(self.random.choice(["NFC", "NFD", "NFKC", "NFKD"]), text) if self.random.random() < 0.5 else text

    def emoji(self):
        def one():
            tone = self.random.choice(["", "", *"🏻🏼🏽🏾🏿"])
            return self.random.choice([
                "\u200d".join(self.random.choice(PEOPLE) + tone for _ in range(self.random.randint(2, 4))),
                self.random.choice(PEOPLE) + tone + "\u200d" + self.random.choice("♂♀") + "\ufe0f",
                self.random.choice(EMOJI) + self.random.choice(["", "\ufe0f", "\ufe0e"]),
                "".join(chr(0x1F1E6 + self.random.randrange(26)) for _ in range(2)),
                self.random.choice("0123456789#*") + "\ufe0f\u20e3",
                "🏴" + "".join(chr(0xE0000 + ord(letter)) for letter in "gbsct") + "\U000e007f",
                chr(self.random.randint(0x1F300, 0x1FAFF)),
            ])  # fmt: skip

        return self.random.choice(["", " ", "a"]).join(one() for _ in range(self.random.randint(1, 5)))

    def spaces(self):
        blank = lambda: self.random.choice(["", " " * self.random.choice([1, 2, 3, 9, 60]), "".join(self.some(SPACES)), "\n" * self.random.randint(1, 4)])
        return "".join(blank() + self.random.choice(["", self.word(), self.random.choice(PUNCTUATION)]) for _ in range(self.random.randint(1, 4))) + blank()

    def controls(self):
        return "".join(self.random.choice([self.word(), *self.some(CONTROLS)]) for _ in range(self.random.randint(1, 8)))

    def numbers(self):
        def one():
            digits = self.random.choice(DIGITS)
            return "".join(self.random.choice(digits) for _ in range(self.random.randint(1, 12)))

        return self.random.choice([" ", ".", ",", "-", "e+", "x", "%", "/", ":"]).join(one() for _ in range(self.random.randint(1, 5)))

    def code(self):
        return self.random.choice(["", "\n", " "]).join(self.some(CODE, 3))

    def long(self):
        count = self.random.choice([30, 99, 100, 101, 200, 300, 1000, 3000])
        return self.random.choice([
            self.random.choice("aé字ँ 1!\n😀") * count,
            self.letters(SCRIPTS[:2], count),
            self.letters(SCRIPTS, min(count, 300)),
            "".join(self.random.choice("ab") for _ in range(count)),
        ])  # fmt: skip

    def any(self):
        """Any code points but surrogates, assigned or not."""
        points = [self.random.randrange(1, self.random.choice([0x100, 0x3000, 0x10000, 0x20000, 0x110000])) for _ in range(self.random.randint(1, 10))]
        return "".join(chr(point) for point in points if not 0xD800 <= point < 0xE000)

    def with_special(self):
        def one():
            token = self.random.choice(self.special)
            return self.random.choice([token, token, token, token.upper(), token.lower(), token[:-1], token[1:], token * 2, f" {token} ", f"\n{token}\t ", f"a{token}b", f"  {token}  x"])

        return "".join(self.random.choice([one(), one(), self.word(), " ", self.random.choice(SENTENCES), self.random.choice(PUNCTUATION)]) for _ in range(self.random.randint(1, 6)))

    def folds(self):
        text = self.random.choice([" ", "", "."]).join(self.some(FOLDS, 4))
        return self.random.choice([text, text.upper(), text.lower(), text.title(), unicodedata.normalize("NFD", text)])

    def sentence(self):
        return self.random.choice([" ", "\n", "  ", ""]).join(self.some(SENTENCES, 3))

    def cut(self):
        text = self.random.choice(SENTENCES)
        first = self.random.randrange(len(text))
        text = text[first : first + self.random.randint(1, 30)]
        return self.random.choice([text, text.upper(), text[::-1], unicodedata.normalize("NFD", text)])

    def punctuation(self):
        return "".join(self.random.choice([self.random.choice(PUNCTUATION), self.random.choice(PUNCTUATION), self.word(), " "]) for _ in range(self.random.randint(1, 12)))

    def mixed(self):
        parts = [it for it in self.sorts if it not in (self.mixed, self.long)]
        return self.random.choice(["", " "]).join(self.random.choice(parts)() for _ in range(self.random.randint(2, 4)))

    def drawn(self):
        return "" if self.random.random() < 0.01 else self.random.choice(self.sorts)()

    def batch(self, most=8):
        """Up to so many texts."""
        return [self.drawn() for _ in range(self.random.randint(1, most))]

    def batches(self, count, most=8):
        """So many texts, in batches."""
        while count > 0:
            batch = self.batch(most)[:count]
            count -= len(batch)
            yield batch

    def broken(self, texts):
        """The bytes of texts, most of them no UTF-8 any more: some are lost, doubled, others, or cut off."""
        return [self.damaged(text.encode()) for text in texts]

    def damaged(self, text):
        for _ in range(self.random.choice([0, 1, 1, 2, 3])):
            at = self.random.randint(0, len(text))
            new = bytes([self.random.choice([self.random.randint(1, 255), *b"\x80\xbf\xc0\xc2\xe0\xed\xf0\xf4\xf5\xff"])])
            until = at + self.random.choice([0, 1, 1, 2])
            text = self.random.choice([text[:at] + new + text[until:], text[:at] + text[until:], text[:at] + text[at:until] * 2 + text[until:], text[:at]])
        return text

    def ids(self, vocabulary):
        """A batch of ids, some of them out of range."""
        length = self.random.randint(0, 24)
        low, high = self.random.choice([(0, vocabulary - 1), (0, vocabulary - 1), (0, 40), (-3, vocabulary + 3), (-(2**31), 2**31 - 1)])
        return [[self.random.randint(low, high) for _ in range(length)] for _ in range(self.random.randint(1, 4))]
