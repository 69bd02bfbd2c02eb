"""The texts of the tokenizer goldens: written ones that cover scripts, code, emoji, white space and control
characters, and random mixtures of such parts. Always the same."""

import random
import unicodedata

# The first article of the Universal Declaration of Human Rights (public domain), or a plain sentence.
SENTENCES = [
    "All human beings are born free and equal in dignity and rights. They are endowed with reason and conscience.",
    "Alle Menschen sind frei und gleich an Würde und Rechten geboren. Straße, Äpfel, Übermut, groß.",
    "Tous les êtres humains naissent libres et égaux en dignité et en droits. L'œuvre, ça, où, naïve.",
    "Todos los seres humanos nacen libres e iguales en dignidad y derechos. ¿Qué? ¡Mañana!",
    "Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw.",
    "Tất cả mọi người sinh ra đều được tự do và bình đẳng về nhân phẩm và quyền.",
    "Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar. İstanbul ılık.",
    "Все люди рождаются свободными и равными в своём достоинстве и правах.",
    "Усі люди народжуються вільними і рівними у своїй гідності та правах. Її ґанок.",
    "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα.",
    "يولد جميع الناس أحراراً متساوين في الكرامة والحقوق.",
    "כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם.",
    "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है।",
    "সমস্ত মানুষ স্বাধীনভাবে সমান মর্যাদা এবং অধিকার নিয়ে জন্মগ্রহণ করে।",
    "மனிதப் பிறவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்.",
    "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ",
    "មនុស្សទាំងអស់ កើតមកមានសេរីភាព និងសមភាព ក្នុងផ្នែកសេចក្ដីថ្លៃថ្នូរនិងសិទ្ធិ។",
    "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心。",
    "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。",
    "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.",
    "ყველა ადამიანი იბადება თავისუფალი და თანასწორი თავისი ღირსებითა და უფლებებით.",
    "Բոլոր մարդիկ ծնվում են ազատ ու հավասար իրենց արժանապատվությամբ ու իրավունքներով։",
    "ሰብዓዊ ፍጡራን ሁሉ ነጻ ሆነው ሲወለዱ በክብርና በመብትም እኩልነት ያላቸው ናቸው።",
]

CODE = [
    "def f(x: int) -> int:\n    \"\"\"Doc.\"\"\"\n    return x * 2 if x % 3 == 0 else x + 1\n",
    "#include <vector>\ntemplate <class T>\nT sum(const std::vector<T>& v) {\n\tT s{};\n\tfor (auto x : v) s += x;\n\treturn s;\n}\n",
    "for (let i = 0; i < 10; ++i) { console.log(`value: ${i}`); } // done\r\n",
    "SELECT name, COUNT(*) FROM users WHERE age >= 18 AND email LIKE '%@example.com' GROUP BY name;",
    "{\"key\": [1, 2.5, -3e10, true, null], \"nested\": {\"a\": \"b\\n\"}}",
    "<div class=\"a b\">Tom &amp; Jerry</div>\n<!-- comment -->\n",
    "if [ -f \"$HOME/.bashrc\" ]; then\n        source ~/.bashrc && echo ok >> /tmp/log 2>&1\nfi\n",
    "\\frac{a}{b} + \\sqrt{x^2} \\leq \\sum_{i=0}^{n} x_i",
    "https://example.com:8080/path/to?q=a%20b&c=d#frag mail@example.org 192.168.0.1 0xDEADBEEF",
]

PARTS = [
    "'s", "'S", "'re", "'LL", "'Ve", "n't", "'\u017f", "'d", "''", "I'm", "we'll", "1", "12", "123", "1234", "12345678",
    "3.14", "1,000,000", "\u0663\u0664", "\u00bd", "\u00b2\u00b3", "\u2167", "\u2460", "...", "!!!", "--", "==", "->",
    "//", "/*", "*/", "::", "</s>", "<s>", "<unk>", "<pad>", "<|endoftext|>", "<|im_start|>", "<0x41>", "\u2581",
    "\u2581\u2581", "\u0120", "e\u0301", "A\u030a", "\u1e9b\u0323", "\u212b", "\ufb01", "\u01c6", "\u1100\u1161\u11a8",
    "\u0915\u093c", "\u0ce8\u0cbe", "\ud55c\uad6d\uc5b4", "\u65e5\u672c\u8a9e", "\u4e2d\u6587", "\u0e44\u0e17\u0e22",
    "\u0939\u093f", "\u0639\u0631", "\u05e2\u05d1", "\U0001f600",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466", "\U0001f1e9\U0001f1ea", "\U0001f3f3\ufe0f\u200d\U0001f308",
    "\U0001f44d\U0001f3fd", "\u2764\ufe0f", "1\ufe0f\u20e3", "the", "The", "HELLO", "camelCase", "snake_case", "x", "\x01",
    "\x1b[0m", "\x7f", "\ufeff", "\u202e", "\u00ad", "\U000e0041", "\ufffd", "$5.00", "50%", "#tag", "@user", "{}", "[]",
    "()", "\"q\"", "\u201cq\u201d", "\u00ab\u00bb", "\u00bf\u00a1", "\u2026", "\u2014", "\uff21\uff22\uff11", "\u3001\u3002",
    "\uff5e", "\u30fb", "\u20ac", "\u00a9", "\u2192", "\u2200x", "\ue000", "\U0001d54f", "\U00020000", "\U00031350", "\u1c89",
    "\ua7cb", "\u0897", "\u2427", "\u180e",
]

SPACES = [" ", "  ", "   ", "\n", "\n\n", "\r\n", "\r", "\t", " \n", "\n ", " \t ", "\u00a0", "\u3000", "\u2003", "\u0085",
          "\x0b", "\x0c", "\u2028", "\u200b", "      ", "\t\t\t", " " * 18, "\n" * 6]

EDGES = ["", " ", "a", " a", "a ", "  a  ", "\n", "\u0301", "\u2581", "'", "\U0010ffff", "a" * 200, "\u00e9" * 70, " " * 100,
         "1" * 50, "!" * 90, "\u4e2d" * 60, "ab" * 80, "\n" * 40, "\t \t " * 10, "a \n b\r\n\r\n  c", "A\u0300\u0301\u0302 B"]


def written():
    return EDGES + SENTENCES + CODE


def mixtures(count=400, seed=2024):
    """Random mixtures of parts, sentences' pieces and characters of random blocks."""
    rng = random.Random(seed)
    blocks = {}
    for cp in range(1, 0x20000):
        # Up to what every Python since 3.8 knows, so that the texts do not depend on the Python.
        if not 0xD800 <= cp <= 0xDFFF and unicodedata.category(chr(cp)) not in ("Cn", "Co"):
            if unicodedata.ucd_3_2_0.category(chr(cp)) != "Cn":
                blocks.setdefault(cp >> 7, []).append(cp)
    blocks = list(blocks.values())
    texts = []
    for _ in range(count):
        parts = []
        for _ in range(rng.randrange(1, 24)):
            kind = rng.random()
            if kind < 0.25:
                parts.append(rng.choice(SPACES))
            elif kind < 0.6:
                parts.append(rng.choice(PARTS))
            elif kind < 0.75:
                sentence = rng.choice(SENTENCES + CODE)
                begin = rng.randrange(len(sentence))
                parts.append(sentence[begin:begin + rng.randrange(1, 16)])
            elif kind < 0.9:
                block = rng.choice(blocks)
                parts.append("".join(chr(rng.choice(block)) for _ in range(rng.randrange(1, 6))))
            else:
                parts.append("".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(rng.randrange(1, 10))))
        texts.append((" " if rng.random() < 0.3 else "").join(parts))
    return texts
