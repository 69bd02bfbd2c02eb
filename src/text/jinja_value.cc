// See jinja_value.h.
#include "text/jinja_value.h"

#include <compare>
#include <cstring>

#include "text/jinja_error.h"

namespace dspark::jinja {
namespace {

constexpr size_t kSmallDict = 12;  // entries that are searched one after the other

struct TypeNames {
  const char* operator()(Value::Missing) const { return "Undefined"; }
  const char* operator()(Value::None) const { return "NoneType"; }
  const char* operator()(bool) const { return "bool"; }
  const char* operator()(Int) const { return "int"; }
  const char* operator()(double) const { return "float"; }
  const char* operator()(const std::shared_ptr<const Undefined>&) const { return "Undefined"; }
  const char* operator()(const std::shared_ptr<const String>& text) const { return text->is_markup ? "Markup" : "str"; }
  const char* operator()(const std::shared_ptr<const List>& list) const { return list->is_tuple ? "tuple" : "list"; }
  const char* operator()(const std::shared_ptr<const Dict>&) const { return "dict"; }
  const char* operator()(const std::shared_ptr<const Range>&) const { return "range"; }
  const char* operator()(const std::shared_ptr<const View>& view) const {
    switch (view->part) {
      case View::Part::kKeys:
        return "dict_keys";
      case View::Part::kValues:
        return "dict_values";
      case View::Part::kItems:
        return "dict_items";
    }
    return "dict_items";
  }
  const char* operator()(const std::shared_ptr<const Method>&) const { return "builtin_function_or_method"; }
  const char* operator()(const Native*) const { return "function"; }
  const char* operator()(const Object* object) const { return object->type_name(); }
};

// Numbers (bools included) as long double, which holds every int of 64 bits exactly.
bool as_number(const Value& value, long double& out) {
  if (auto* b = value.get<bool>()) return out = *b, true;
  if (auto* i = value.get<Int>()) return out = static_cast<long double>(*i), true;
  if (auto* d = value.get<double>()) return out = *d, true;
  return false;
}

int key_rank(const Value& key) {
  long double number = 0;
  if (as_number(key, number)) return 0;
  if (key.text() != nullptr) return 1;
  if (key.get<List>() != nullptr) return 2;
  return 3;
}

// Three-way order of dict keys, consistent with Python's equality.
std::partial_ordering compare_keys(const Value& a, const Value& b) {
  const int rank = key_rank(a);
  if (rank != key_rank(b)) return rank <=> key_rank(b);
  if (rank == 0) {
    auto *ia = a.get<Int>(), *ib = b.get<Int>();
    if (ia != nullptr && ib != nullptr) return *ia <=> *ib;
    long double na = 0, nb = 0;
    as_number(a, na), as_number(b, nb);
    return na <=> nb;
  }
  if (rank == 1) return a.text()->compare(*b.text()) <=> 0;
  if (rank == 2) {
    const auto &la = a.get<List>()->items, &lb = b.get<List>()->items;
    for (size_t i = 0; i < la.size() && i < lb.size(); ++i) {
      if (auto order = compare_keys(la[i], lb[i]); order != 0) return order;
    }
    return la.size() <=> lb.size();
  }
  return std::strcmp(a.type_name(), b.type_name()) <=> 0;
}

}  // namespace

void Meter::take(size_t bytes) {
  if (bytes > max_bytes_ - used_) fail_limit("the template's values need more than the limit of {} bytes", max_bytes_);
  used_ += bytes;
}

Value Value::constant(std::string text) {
  auto string = std::make_shared<String>();
  string->text = std::move(text);
  return Value(std::shared_ptr<const String>(std::move(string)));
}

int Value::depth() const {
  if (auto* list = get<List>()) return list->depth;
  if (auto* dict = get<Dict>()) return dict->depth;
  if (auto* view = get<View>()) return view->dict->depth + 1;
  if (auto* method = get<Method>()) return method->self.depth() + 1;
  return 0;
}

const char* Value::type_name() const { return std::visit(TypeNames{}, storage_); }

bool Dict::KeyLess::operator()(const Value& a, const Value& b) const { return compare_keys(a, b) < 0; }
bool Dict::KeyLess::operator()(const Value& a, std::string_view b) const {
  return key_rank(a) != 1 ? key_rank(a) < 1 : *a.text() < b;
}
bool Dict::KeyLess::operator()(std::string_view a, const Value& b) const {
  return key_rank(b) != 1 ? 1 < key_rank(b) : a < *b.text();
}

void Dict::set(Value key, Value value) {
  if (auto* old = const_cast<Value*>(find(key))) {
    *old = std::move(value);
    return;
  }
  entries_.emplace_back(std::move(key), std::move(value));
  if (entries_.size() <= kSmallDict) return;
  if (index_.empty()) {
    for (size_t i = 0; i + 1 < entries_.size(); ++i) index_.emplace(entries_[i].first, i);
  }
  index_.emplace(entries_.back().first, entries_.size() - 1);
}

const Value* Dict::find(std::string_view key) const {
  if (index_.empty()) {
    for (const auto& [name, value] : entries_) {
      if (name.text() != nullptr && *name.text() == key) return &value;
    }
    return nullptr;
  }
  auto found = index_.find(key);
  return found == index_.end() ? nullptr : &entries_[found->second].second;
}

const Value* Dict::find(const Value& key) const {
  if (index_.empty()) {
    for (const auto& [name, value] : entries_) {
      if (compare_keys(name, key) == 0) return &value;
    }
    return nullptr;
  }
  auto found = index_.find(key);
  return found == index_.end() ? nullptr : &entries_[found->second].second;
}

}  // namespace dspark::jinja
