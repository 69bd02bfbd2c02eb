// See jinja_markup.h.
#include "text/jinja_markup.h"

#include "text/jinja_ops.h"
#include "text/jinja_print.h"

namespace dspark::jinja {
namespace {

Value escaped(Runtime& rt, const Value& value) { return rt.markup(escape_html(rt, value)); }

Value as_markup(Runtime& rt, const Value& value) {
  if (value.text() != nullptr) return rt.markup(*value.text());
  const List* list = value.get<List>();
  if (list == nullptr) return value;
  std::vector<Value> items;
  items.reserve(list->items.size());
  for (const Value& item : list->items) items.push_back(as_markup(rt, item));
  return list->is_tuple ? rt.tuple(std::move(items)) : rt.list(std::move(items));
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string escape_html(Runtime& rt, const Value& value) {
  return value.is_markup() ? *value.text() : escape_html(to_str(rt, value));
}

Value call_markup_method(Runtime& rt, const Method& method, CallArgs args) {
  const std::string_view name = method.function->name;
  if (name == "replace" && args.positional.size() > 1) args.positional[1] = escaped(rt, args.positional[1]);
  if (name == "join" && !args.positional.empty()) {
    std::vector<Value> items = collect(rt, args.positional[0]);
    for (Value& item : items) item = escaped(rt, item);
    args.positional[0] = rt.list(std::move(items));
  }
  return as_markup(rt, call_native(rt, *method.function, method.self, std::move(args)));
}

}  // namespace dspark::jinja
