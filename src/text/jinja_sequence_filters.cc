// See jinja_sequence_filters.h. What jinja2 makes lazily (map, select, ...) is made at once here, but can be walked
// only once all the same.
#include "text/jinja_sequence_filters.h"

#include <algorithm>
#include <optional>

#include "text/jinja_filters.h"
#include "text/jinja_ops.h"
#include "text/jinja_print.h"
#include "text/jinja_unicode.h"

namespace dspark::jinja {
namespace {

// A dotted path of attributes and indices ("a.b.0"); nothing: the item itself.
using Path = std::vector<Value>;

Path parse_path(Runtime& rt, std::string_view text) {
  Path path;
  while (true) {
    const size_t dot = std::min(text.find('.'), text.size());
    const std::string_view part = text.substr(0, dot);
    const bool digits = !part.empty() && part.size() < 18 && part.find_first_not_of("0123456789") == part.npos;
    path.push_back(digits ? Value::integer(std::stoll(std::string(part))) : rt.text(std::string(part)));
    if (dot == text.size()) return path;
    text = text.substr(dot + 1);
  }
}

Path path_of(Runtime& rt, const Value& attribute) {
  if (attribute.is_missing() || attribute.is_none()) return {};
  return attribute.text() != nullptr ? parse_path(rt, *attribute.text()) : Path{attribute};
}

Value follow(Runtime& rt, Value item, const Path& path, const Value& fallback = Value()) {
  for (const Value& part : path) {
    item = get_item(rt, item, part);
    if (item.is_undefined() && !fallback.is_missing() && !fallback.is_none()) item = fallback;
  }
  return item;
}

Value fold_case(Runtime& rt, const Value& value, bool case_sensitive) {
  return case_sensitive || value.text() == nullptr ? value : rt.text(lower(*value.text()));
}

// Items with the keys that they are compared by.
struct Keyed {
  Value key;
  Value item;
};

template <class KeyOf>
std::vector<Keyed> with_keys(Runtime& rt, const Value& sequence, KeyOf key_of) {
  std::vector<Keyed> keyed;
  Charge charge(rt.meter());
  Cursor cursor(rt, sequence);
  for (Value item; cursor.next(item);) {
    charge.grow(sizeof(Keyed));
    Value key = key_of(item);
    keyed.push_back({std::move(key), std::move(item)});
  }
  return keyed;
}

// Python's sorted(): stable, also in reverse.
void sort_keyed(Runtime& rt, std::vector<Keyed>& items, bool reverse) {
  std::stable_sort(items.begin(), items.end(), [&](const Keyed& a, const Keyed& b) {
    return reverse ? compare(rt, CompareOp::kLess, b.key, a.key) : compare(rt, CompareOp::kLess, a.key, b.key);
  });
}

std::vector<Value> items_of(std::vector<Keyed> keyed) {
  std::vector<Value> items;
  items.reserve(keyed.size());
  for (Keyed& each : keyed) items.push_back(std::move(each.item));
  return items;
}

Value filter_length(Runtime& rt, const Value& self, const Args&) {
  const auto size = length(rt, self);
  if (!size) fail("object of type '{}' has no len()", self.type_name());
  return Value::integer(static_cast<Int>(*size));
}

Value filter_first(Runtime& rt, const Value& self, const Args&) {
  Cursor cursor(rt, self);
  Value item;
  return cursor.next(item) ? item : rt.undefined("No first item, sequence was empty.");
}

// What reversed() takes: not generators.
std::vector<Value> reversible(Runtime& rt, const Value& self) {
  if (self.object_as<Object>() != nullptr) fail("'{}' object is not reversible", self.type_name());
  return collect(rt, self);
}

Value filter_last(Runtime& rt, const Value& self, const Args&) {
  std::vector<Value> items = reversible(rt, self);
  return items.empty() ? rt.undefined("No last item, sequence was empty.") : std::move(items.back());
}

Value filter_reverse(Runtime& rt, const Value& self, const Args&) {
  std::vector<Value> items = collect(rt, self);
  std::reverse(items.begin(), items.end());
  if (self.text() != nullptr) {
    std::string out;
    for (const Value& item : items) out += *item.text();
    return rt.text_like(self, std::move(out));
  }
  return self.object_as<Object>() != nullptr ? rt.list(std::move(items))
                                             : rt.generator(std::move(items), "list_reverseiterator");
}

Value filter_list(Runtime& rt, const Value& self, const Args&) { return rt.list(collect(rt, self)); }

Value filter_items(Runtime& rt, const Value& self, const Args&) {
  if (self.is_undefined()) return rt.generator({});
  if (self.get<Dict>() == nullptr) fail("Can only get item pairs from a mapping.");
  const Value items = Value::shared(std::make_shared<const View>(View{View::Part::kItems, self.share<Dict>()}));
  return rt.generator(collect(rt, items));
}

Value filter_join(Runtime& rt, const Value& self, const Args& args) {
  const std::string separator = args.has(0) ? to_str(rt, args[0]) : "";
  const Path path = path_of(rt, args[1]);
  std::string out;
  bool first = true;
  Cursor cursor(rt, self);
  for (Value item; cursor.next(item); first = false) {
    rt.check_text(out.size() + separator.size());
    if (!first) out += separator;
    append_str(rt, out, follow(rt, item, path));
  }
  return rt.text(std::move(out));
}

Value filter_batch(Runtime& rt, const Value& self, const Args& args) {
  const Int size = args.integer(0, 1);
  std::vector<Value> batches, batch;
  Cursor cursor(rt, self);
  for (Value item; cursor.next(item);) {
    if (static_cast<Int>(batch.size()) == size) batches.push_back(rt.list(std::exchange(batch, {})));
    batch.push_back(std::move(item));
  }
  if (!batch.empty()) {
    if (args.given(1) && static_cast<Int>(batch.size()) < size) {
      rt.check_text(static_cast<size_t>(std::min<Int>(size, 1 << 30)) * sizeof(Value));
      batch.resize(static_cast<size_t>(size), args[1]);
    }
    batches.push_back(rt.list(std::move(batch)));
  }
  return rt.generator(std::move(batches));
}

Value filter_slice(Runtime& rt, const Value& self, const Args& args) {
  const std::vector<Value> items = collect(rt, self);
  const Int slices = args.integer(0, 1);
  if (slices == 0) fail("integer division or modulo by zero");
  if (slices < 0) return rt.generator({});
  rt.check_text(static_cast<size_t>(std::min<Int>(slices, 1 << 30)) * sizeof(Value));
  const auto count = static_cast<size_t>(slices);
  const size_t per_slice = items.size() / count, longer = items.size() % count;
  std::vector<Value> columns;
  size_t begin = 0;
  for (size_t i = 0; i < count; ++i) {
    const size_t end = begin + per_slice + (i < longer ? 1 : 0);
    std::vector<Value> column(items.begin() + static_cast<ptrdiff_t>(begin),
                              items.begin() + static_cast<ptrdiff_t>(end));
    if (args.given(1) && i >= longer) column.push_back(args[1]);
    columns.push_back(rt.list(std::move(column)));
    begin = end;
  }
  return rt.generator(std::move(columns));
}

Value filter_sort(Runtime& rt, const Value& self, const Args& args) {
  const bool case_sensitive = args.truth(1, false);
  std::vector<Path> paths;
  if (args.given(2) && args[2].text() != nullptr) {
    std::string_view names = *args[2].text();
    for (size_t comma; (comma = names.find(',')) != names.npos; names = names.substr(comma + 1)) {
      paths.push_back(parse_path(rt, names.substr(0, comma)));
    }
    paths.push_back(parse_path(rt, names));
  } else {
    paths.push_back(path_of(rt, args[2]));
  }
  auto keyed = with_keys(rt, self, [&](const Value& item) {
    std::vector<Value> keys;
    for (const Path& path : paths) keys.push_back(fold_case(rt, follow(rt, item, path), case_sensitive));
    return rt.list(std::move(keys));
  });
  sort_keyed(rt, keyed, args.truth(0, false));
  return rt.list(items_of(std::move(keyed)));
}

Value filter_dictsort(Runtime& rt, const Value& self, const Args& args) {
  const Dict* dict = self.get<Dict>();
  if (auto* undefined = self.get<Undefined>()) fail("{}", undefined->reason);
  if (dict == nullptr) fail("'{}' object has no attribute 'items'", self.type_name());
  const std::string_view by = args.text(1, "key");
  if (by != "key" && by != "value") fail("You can only sort by either \"key\" or \"value\"");
  const bool case_sensitive = args.truth(0, false);
  std::vector<Keyed> keyed;
  for (const auto& [key, value] : dict->entries()) {
    keyed.push_back({fold_case(rt, by == "key" ? key : value, case_sensitive), rt.tuple({key, value})});
  }
  sort_keyed(rt, keyed, args.truth(2, false));
  return rt.list(items_of(std::move(keyed)));
}

template <CompareOp kBetter>
Value filter_extreme(Runtime& rt, const Value& self, const Args& args) {
  const Path path = path_of(rt, args[1]);
  const bool case_sensitive = args.truth(0, false);
  const auto keyed =
      with_keys(rt, self, [&](const Value& item) { return fold_case(rt, follow(rt, item, path), case_sensitive); });
  if (keyed.empty()) return rt.undefined("No aggregated item, sequence was empty.");
  const Keyed* best = &keyed.front();
  for (const Keyed& each : keyed) {
    if (&each != best && compare(rt, kBetter, each.key, best->key)) best = &each;
  }
  return best->item;
}

Value filter_unique(Runtime& rt, const Value& self, const Args& args) {
  const Path path = path_of(rt, args[1]);
  const bool case_sensitive = args.truth(0, false);
  std::vector<Value> items;
  Dict seen;
  Charge charge(rt.meter());
  auto keyed =
      with_keys(rt, self, [&](const Value& item) { return fold_case(rt, follow(rt, item, path), case_sensitive); });
  for (Keyed& each : keyed) {
    rt.dict({{each.key, Value::none()}});  // fails for keys that cannot be hashed
    if (seen.find(each.key) != nullptr) continue;
    charge.grow(3 * sizeof(Value));
    seen.set(std::move(each.key), Value::none());
    items.push_back(std::move(each.item));
  }
  return rt.generator(std::move(items));
}

Value filter_groupby(Runtime& rt, const Value& self, const Args& args) {
  const Path path = path_of(rt, args[0]);
  const bool case_sensitive = args.truth(2, false);
  const Value fallback = args[1];
  auto keyed = with_keys(
      rt, self, [&](const Value& item) { return fold_case(rt, follow(rt, item, path, fallback), case_sensitive); });
  sort_keyed(rt, keyed, false);
  std::vector<Value> groups;
  for (size_t begin = 0, end = 0; begin < keyed.size(); begin = end) {
    std::vector<Value> members;
    for (; end < keyed.size() && equals(rt, keyed[end].key, keyed[begin].key); ++end)
      members.push_back(keyed[end].item);
    if (end == begin) members.push_back(keyed[end++].item);  // NaN differs from itself
    auto group = std::make_shared<List>();
    const Value key = follow(rt, members.front(), path, fallback);
    const Value pair = rt.tuple({key, rt.list(std::move(members))});
    group->items = pair.get<List>()->items;
    group->depth = pair.depth();
    group->is_tuple = group->is_group = true;
    groups.push_back(Value::shared(std::shared_ptr<const List>(std::move(group))));
  }
  return rt.list(std::move(groups));
}

Value filter_sum(Runtime& rt, const Value& self, const Args& args) {
  const Path path = path_of(rt, args[0]);
  Value total = args.has(1) ? args[1] : Value::integer(0);
  if (total.text() != nullptr) fail("sum() can't sum strings [use ''.join(seq) instead]");
  Cursor cursor(rt, self);
  for (Value item; cursor.next(item);) total = binary(rt, BinaryOp::kAdd, total, follow(rt, item, path));
  return total;
}

// The rest of the arguments of map, select, ... from `first` on, for the filter or test that they name.
CallArgs rest_of(const CallArgs& args, size_t first) {
  CallArgs rest;
  rest.positional.assign(args.positional.begin() + static_cast<ptrdiff_t>(first), args.positional.end());
  rest.named = args.named;
  return rest;
}

Value filter_map(Runtime& rt, const Value& self, const Args& args) {
  if (!truthy(self)) return rt.generator({});  // none, too, though it cannot be walked
  CallArgs& all = args.all();
  std::vector<Value> items;
  Cursor cursor(rt, self);
  if (all.positional.empty() && !all.named.empty() &&
      std::any_of(all.named.begin(), all.named.end(), [](const auto& n) { return n.first == "attribute"; })) {
    const Args bound("map", "attribute | default", all);
    const Path path = path_of(rt, bound[0]);
    for (Value item; cursor.next(item);) items.push_back(follow(rt, item, path, bound[1]));
    return rt.generator(std::move(items));
  }
  if (all.positional.empty()) fail("map requires a filter argument");
  const std::string name = to_str(rt, all.positional[0]);
  const Native* filter = find_filter(name);
  for (Value item; cursor.next(item);) {
    if (filter == nullptr) fail("No filter named '{}'.", name);
    items.push_back(call_native(rt, *filter, item, rest_of(all, 1)));
  }
  return rt.generator(std::move(items));
}

// select, reject, selectattr and rejectattr.
template <bool kKeep, bool kAttribute>
Value filter_select(Runtime& rt, const Value& self, const Args& args) {
  if (!truthy(self)) return rt.generator({});
  CallArgs& all = args.all();
  if (kAttribute && all.positional.empty()) fail("Missing parameter for attribute name");
  const Path path = kAttribute ? path_of(rt, all.positional[0]) : Path{};
  constexpr size_t kName = kAttribute ? 1 : 0;
  const bool tests = all.positional.size() > kName;
  const std::string name = tests ? to_str(rt, all.positional[kName]) : "";
  const Native* test = find_test(name);
  std::vector<Value> items;
  Cursor cursor(rt, self);
  for (Value item; cursor.next(item);) {
    if (tests && test == nullptr) fail("No test named '{}'.", name);
    const Value tested = follow(rt, item, path);
    const bool holds = truthy(tests ? call_native(rt, *test, tested, rest_of(all, kName + 1)) : tested);
    if (holds == kKeep) items.push_back(std::move(item));
  }
  return rt.generator(std::move(items));
}

constexpr Native kSequenceFilters[] = {
    {"batch", "linecount | fill_with", filter_batch},
    {"count", "", filter_length},
    {"dictsort", "| case_sensitive by reverse", filter_dictsort},
    {"first", "", filter_first},
    {"groupby", "attribute | default case_sensitive", filter_groupby},
    {"items", "", filter_items},
    {"join", "| d attribute", filter_join},
    {"last", "", filter_last},
    {"length", "", filter_length},
    {"list", "", filter_list},
    {"map", "*", filter_map},
    {"max", "| case_sensitive attribute", filter_extreme<CompareOp::kGreater>},
    {"min", "| case_sensitive attribute", filter_extreme<CompareOp::kLess>},
    {"reject", "*", filter_select<false, false>},
    {"rejectattr", "*", filter_select<false, true>},
    {"reverse", "", filter_reverse},
    {"select", "*", filter_select<true, false>},
    {"selectattr", "*", filter_select<true, true>},
    {"slice", "slices | fill_with", filter_slice},
    {"sort", "| reverse case_sensitive attribute", filter_sort},
    {"sum", "| attribute start", filter_sum},
    {"unique", "| case_sensitive attribute", filter_unique},
};

}  // namespace

std::span<const Native> sequence_filters() { return kSequenceFilters; }

}  // namespace dspark::jinja
