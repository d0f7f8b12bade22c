"""Generates hostile Lisp programs: each of them has to end within its limits with an error."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

DEEP = 3_000
"""Levels of nesting in a program's text."""

_GROWTH = (
    "(loop [x {seed}] (recur ({f} x x)))",
    "(reduce (fn [x _] ({f} x x)) {seed} (range 1000000))",
    "((fn again [x] (again ({f} x x))) {seed})",
    "(last (take 1000000 (iterate (fn [x] ({f} x x)) {seed})))",
    "(defn grow [x] (recur ({f} x x))) (grow {seed})",
    "(some (fn [x] (> (count x) 100000000)) (iterate (fn [x] ({f} x x)) {seed}))",
)
"""Programs in which a value doubles again and again."""

_DOUBLING = (
    ("str", '"ab"'),
    ("str", "[1 2]"),
    ("concat", "[1 2]"),
    ("into", "[1 2]"),
    ("vector", "[1]"),
    ("list", ":a"),
    ("hash-map", "{:a 1}"),
    ("interleave", "[:a]"),
    ("(fn [a b] (join a [a b]))", '"ab"'),
    ('(fn [a b] (replace a "a" b))', '"aa"'),
    ('(fn [a b] (format "%s%s" a b))', '"ab"'),
    ("(fn [a b] (pr-str a b))", '"\\\\"'),
    ("(fn [a b] (json/generate-string [a b]))", '"\\\\"'),
    ("(fn [a b] {:a a :b b})", "{}"),
    ("(fn [a b] (mapcat (fn [_] b) a))", "[1 2 3]"),
    ("(fn [a b] (for [x a y b] x))", "[1 2 3]"),
    ("*", "7"),
    ("(fn [a b] (set (concat a (map #(+ % (count b)) b))))", "#{1 2}"),
    ("(fn [a b] (zipmap (map str (concat a b) (range)) (concat a b)))", "[1 2]"),
    ('(fn [a b] (re-seq #"." (str a b)))', '"abc"'),
    ('(fn [a b] (split (str a b) #""))', '"abc"'),
)

_HUGE = (
    "(range 1000000000)",
    "(repeat 1000000000 :x)",
    "(combinations (range 60) 30)",
    "(vec (range 100000000))",
    "(for [a (range 10000) b (range 10000)] [a b])",
    "(map vector (range 1000000) (range 1000000))",
    "(reduce conj [] (range 100000000))",
    "(reduce (fn [m i] (assoc m i i)) {} (range 100000000))",
    "(set (range 100000000))",
    "(into {} (map (fn [i] [i i]) (range 10000000)))",
    '(apply str (repeat 10000000 "abc"))',
    '(join "," (range 100000000))',
    "(partition 2 1 (range 100000000))",
    '(format "%1000000000d" 1)',
    '(format "%.1000000000f" 1)',
    "(pow 10 1000000000)",
    "(pow 1.5 100000)",
    "(reduce * (range 1 1000000))",
    "(sort (map (fn [i] (mod (* i 7919) 1000003)) (range 60000)))",
    "(frequencies (range 100000000))",
    "(group-by identity (range 100000000))",
    '(map (fn [i] (keyword (str i (apply str (repeat 1000 "k"))))) (range 100000))',
    '(map (fn [i] (keyword (str "k" i))) (range 10000000))',
    '(map (fn [i] (str "a text that is not so short, number " i)) (range 10000000))',
    "(map (fn [i] (fn [] [i i i])) (range 10000000))",
    "(map (fn [i] (partial + i i i)) (range 10000000))",
    "(reductions conj [] (range 100000))",
    "(tree-seq (fn [_] true) (fn [x] [x x]) 1)",
    "(tree-seq map? (fn [m] (repeat 1000 m)) {:a 1})",
    "(postwalk (fn [x] (if (number? x) [x x] x)) (vec (range 10000000)))",
    "(prewalk (fn [x] [x x]) 1)",
    '(json/parse-string (apply str (repeat 100000 "[")))',
    '(json/parse-string (str "[" (join "," (repeat 900000 "1")) "]"))',
    '(re-seq #"(a*)*b" (apply str (repeat 100000 "a")))',
    '(re-find (re-pattern (apply str (repeat 500 "(a|b)?"))) (apply str (repeat 100000 "a")))',
    '(re-find #"((a{1,100}){1,100}){1,100}" "aaa")',
    "(doseq [i (range 100000000)] (println i))",
    '(loop [i 0] (println "more and more") (recur (inc i)))',
    "(distinct (map (fn [i] (str i)) (range 10000000)))",
    "(sort-by str (fn [a b] (compare a b)) (range 10000000))",
)

_ENDLESS = (
    "(count (range))",
    "(vec (iterate inc 1))",
    "(reduce + (range))",
    "(doall (cycle [1 2]))",
    "(last (repeat 1))",
    "(sort (range))",
    "(str (range))",
    "[(range) (range)]",
    "(filter neg? (range))",
    "(first (filter neg? (range)))",
    "(some neg? (range))",
    "(every? nat-int? (range))",
    "(take-while nat-int? (range))",
    "(drop-while nat-int? (range))",
    "(for [x (range)] x)",
    "(for [x (range) y (range)] [x y])",
    "(doseq [x (cycle [1])] x)",
    "(nth (range) 1000000000)",
    "(take 1000000000 (range))",
    "(drop 1000000000 (cycle [1 2 3]))",
    "(map + (range) (range))",
    "(mapv inc (range))",
    "(into [] (range))",
    "(interleave (range) (range))",
    "(zipmap (range) (range))",
    "(= (range) (range 10))",
    "(hash-map :a (range))",
    "(apply + (range))",
    "(mapcat (fn [x] [x x]) (range))",
    "(keep (fn [x] nil) (range))",
    "(first (keep (fn [x] nil) (range)))",
    "(first (remove nat-int? (iterate inc 0)))",
    "(frequencies (cycle [:a :b]))",
    "(reduce (fn [a b] (+ a b)) 0 (map inc (filter even? (range))))",
    "(let [[a b] (range)] a)",
    "(group-by odd? (range))",
    "(partition 2 (range))",
    "(json/generate-string (range))",
    "(contains? (range) 5)",
    "(flatten [(range) (map inc (range))])",
)

_RECURSIVE = (
    "(defn f [n] (+ 1 (f n))) (f 1)",
    "(defn f [n] (f (f n))) (f 1)",
    "(defn even [n] (odd n)) (defn odd [n] (not (even n))) (even 1)",
    "((fn f [x] [(f x)]) 1)",
    "((fn f [x] {:a (f x)}) 1)",
    "((fn f [& xs] (apply f 1 xs)))",
    "((fn f [x] (map f [x])) 1)",
    "((fn f [x] (reduce (fn [a b] (f b)) 0 [x x])) 1)",
    "((fn f [x] (sort-by f [x x])) 1)",
    "(let [y (fn [g] (g g))] (y y))",
    "((fn f [x] (update {:a 1} :a f)) 1)",
    "((fn f [x] (let [a (f x) b (f x)] a)) 1)",
    "((fn f [n] (if (> n 1) (+ (f (- n 1)) (f (- n 2))) n)) 60)",
    "(loop [] (recur))",
    "((fn f [x] (some f [x])) 1)",
    "((fn f [x] (cond (f x) 1 :else 2)) 1)",
    "((fn f [x] (case (f x) 1 2 3)) 1)",
    "((fn f [x] (-> x f f)) 1)",
    "((fn f [x] (group-by f [x])) 1)",
    "((fn f [x] ((comp f f) x)) 1)",
    "((fn f [x] ((juxt f f) x)) 1)",
    "((fn f [x] (walk f f [x])) [1])",
    '((fn f [x] (replace "a" #"a" f)) 1)',
    "(reduce (fn [f i] (comp f inc)) inc (range 1000000))",
    "((reduce (fn [f i] (comp f inc)) inc (range 20000)) 1)",
    "(reduce (fn [f i] (fn [x] (f (+ x i)))) inc (range 1000000))",
    "((reduce (fn [f i] (fn [x] (f (+ x i)))) inc (range 20000)) 1)",
    "(loop [v []] (recur [v]))",
    "(loop [m {}] (recur {:a m}))",
    "(loop [s #{}] (recur #{s}))",
    "(loop [l ()] (recur (list l)))",
    "(reduce (fn [v _] (assoc-in {} [:a] v)) 1 (range 1000))",
    "(assoc-in {} (range 1000) 1)",
    "(loop [f (fn [] 1)] (recur (fn [] (f))))",
)


def _deep(random: Random) -> Iterator[str]:
    for opening, closing in (("(", ")"), ("[", "]"), ("{1 ", "}"), ("#{", "}"), ("(inc ", ")"), ("(let [x ", "] x)")):
        yield opening * DEEP + "1" + closing * DEEP
        yield opening * DEEP
    for prefix in ("'", "#_", "#'"):
        yield prefix * DEEP
    yield "(" + "(fn [x] " * 200 + "x" + ")" * 200 + " 1)"
    yield "".join(random.choice("()[]{}'#\"\\:@^~` a1") for _ in range(5_000))
    yield "1" * 50_000
    yield "[" + "1e999 " * 2_000 + "1e99999]"


def programs(seed: int = 1) -> list[str]:
    """Return the programs: the lists above, the doubling of each value in each way, and deep texts."""
    random = Random(seed)
    grown = [form.format(f=f, seed=start) for f, start in _DOUBLING for form in _GROWTH]
    closures = [
        f"(let [big (vec (range {random.randint(1_000, 9_000)}))] (loop [fs []] (recur (conj fs (fn [] {use})))))"
        for use in ("big", "(count big)", "fs", "[fs big]", "(map big (range 3))")
    ]
    return [*_HUGE, *_ENDLESS, *_RECURSIVE, *_deep(random), *closures, *random.sample(grown, 80)]
