// Builds rows of the option tables: made by kind, then refined by calls. The default value is that
// of the field in a new object, so that no table repeats it.
#pragma once

#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "program/options.h"

namespace banyan {

template <typename Field>
struct PlainField {
  using Type = Field;
  static constexpr bool kOptional = false;
};
template <typename Field>
struct PlainField<std::optional<Field>> {
  using Type = Field;
  static constexpr bool kOptional = true;
};

template <typename Options>
class Row {
 public:
  using Self = Row<Options>;

  // `access`: a pointer to the field, or a function from Options& to a reference to it.
  template <typename Access>
  static Self Flag(const char* name, Access access, const char* help) {
    return Simple<bool>(name, OptionKind::kFlag, access, help);
  }
  template <typename Access>
  static Self Whole(const char* name, Access access, const char* help) {
    Self row = Simple<std::int64_t>(name, OptionKind::kWhole, access, help);
    using Field = typename PlainField<FieldOf<Access>>::Type;
    // A seed is unsigned; what HTTP and JSON can say of it are the values of an int64.
    row.row_.field_most = std::is_same_v<Field, int> ? std::numeric_limits<int>::max()
                                                     : std::numeric_limits<std::int64_t>::max();
    return row;
  }
  template <typename Access>
  static Self Number(const char* name, Access access, const char* help) {
    return Simple<double>(name, OptionKind::kNumber, access, help);
  }
  template <typename Access>
  static Self Text(const char* name, Access access, const char* help) {
    return Simple<std::string>(name, OptionKind::kText, access, help).HideDefault();
  }
  template <typename Access>
  static Self JsonText(const char* name, Access access, const char* help) {
    return Simple<std::string>(name, OptionKind::kJson, access, help).HideDefault();
  }
  template <typename Access>
  static Self Texts(const char* name, Access access, const char* help) {
    return Simple<std::vector<std::string>>(name, OptionKind::kTexts, access, help).HideDefault();
  }
  // A text that is one of several.
  template <typename Access>
  static Self Word(const char* name, Access access, std::vector<std::string> words,
                   const char* help) {
    Self row = Simple<std::string>(name, OptionKind::kName, access, help);
    row.row_.names = std::move(words);
    return row;
  }
  template <typename Access, typename Value>
  static Self Name(const char* name, Access access, const OptionNames<Value>& names,
                   const char* help) {
    Self row = Custom(
        name, OptionKind::kName,
        [access, &names](Options& options, const OptionData& data, const std::string& called) {
          std::invoke(access, options) = NamedValue(std::get<std::string>(data), called, names);
        },
        [access, &names](const Options& options) -> std::optional<OptionData> {
          const Value value = std::invoke(access, const_cast<Options&>(options));
          for (const auto& [known, one] : names) {
            if (one == value) return OptionData(std::string(known));
          }
          return std::nullopt;
        },
        help);
    for (const auto& [known, value] : names) row.row_.names.emplace_back(known);
    return row;
  }
  static Self Custom(const char* name, OptionKind kind, decltype(OptionRow<Options>::set) set,
                     decltype(OptionRow<Options>::get) get, const char* help) {
    Self row;
    row.row_.name = name;
    row.row_.kind = kind;
    row.row_.help = help;
    row.row_.set = std::move(set);
    row.row_.get = std::move(get);
    return row;
  }

  Self From(double least) && {
    row_.least = least;
    row_.ranged = true;
    return std::move(*this);
  }
  Self Range(double least, double most) && {
    row_.most = most;
    row_.bounded = true;
    return std::move(*this).From(least);
  }
  Self Names(std::vector<std::string> names) && {
    row_.names = std::move(names);
    return std::move(*this);
  }
  Self Interfaces(unsigned interfaces) && {
    row_.interfaces = interfaces;
    return std::move(*this);
  }
  Self Style(CommandStyle style) && {
    row_.style = style;
    return std::move(*this);
  }
  // On the command line: "-o,--output".
  Self Called(const char* names) && {
    row_.command_names = names;
    return std::move(*this);
  }
  Self Alias(const char* alias) && {
    row_.aliases.emplace_back(alias);
    return std::move(*this);
  }
  Self OverHttp(const char* name) && {
    row_.http_name = name;
    return std::move(*this);
  }
  Self NamesOverHttp(std::vector<std::string> names) && {
    row_.http_names = std::move(names);
    return std::move(*this);
  }
  Self Limit(ServerLimit limit) && {
    row_.limit = limit;
    return std::move(*this);
  }
  Self MostTexts(size_t most) && {
    row_.most_texts = most;
    return std::move(*this);
  }
  Self Delimiter(char delimiter) && {
    row_.delimiter = delimiter;
    return std::move(*this);
  }
  // The help of HTTP and Python.
  Self Elsewhere(const char* help) && {
    row_.other_help = help;
    return std::move(*this);
  }
  Self Unit(const char* unit) && {
    row_.unit = unit;
    return std::move(*this);
  }
  Self Placeholder(const char* placeholder) && {
    row_.placeholder = placeholder;
    return std::move(*this);
  }
  Self HideDefault() && {
    row_.show_default = false;
    return std::move(*this);
  }
  Self ShowDefault() && {
    row_.show_default = true;
    return std::move(*this);
  }
  Self Identity(InIdentity identity = InIdentity::kAlways) && {
    row_.identity = identity;
    return std::move(*this);
  }
  Self WholeInIdentity() && {
    row_.whole_in_identity = true;
    return std::move(*this).Identity();
  }
  Self CountsIf(bool (*counts)(const Options&)) && {
    row_.counts = counts;
    return std::move(*this).Identity();
  }

  Self ForComparison() && {
    row_.for_comparison = true;
    return std::move(*this);
  }

  OptionRow<Options> Finish(const char* group) && {
    row_.group = group;
    row_.default_value = row_.get(Options());
    // -1 for "no limit" is no value that can be given.
    if (const auto* whole =
            row_.default_value ? std::get_if<std::int64_t>(&*row_.default_value) : nullptr) {
      if (!InRange(row_, *whole)) row_.default_value.reset();
    }
    const bool says_so = row_.help.find("default") != std::string::npos;
    if (says_so || row_.kind == OptionKind::kFlag) row_.show_default = false;
    if (row_.style == CommandStyle::kOnOff) row_.show_default = true;
    return std::move(row_);
  }

 private:
  template <typename Access>
  using FieldOf = std::remove_reference_t<std::invoke_result_t<Access, Options&>>;

  // A field that holds a Data, converted.
  template <typename Data, typename Access>
  static Self Simple(const char* name, OptionKind kind, Access access, const char* help) {
    using Field = FieldOf<Access>;
    using Plain = typename PlainField<Field>::Type;
    return Custom(
        name, kind,
        [access](Options& options, const OptionData& data, const std::string&) {
          std::invoke(access, options) = static_cast<Plain>(std::get<Data>(data));
        },
        [access](const Options& options) -> std::optional<OptionData> {
          const Field& field = std::invoke(access, const_cast<Options&>(options));
          if constexpr (PlainField<Field>::kOptional) {
            if (!field) return std::nullopt;
            return OptionData(static_cast<Data>(*field));
          } else {
            return OptionData(static_cast<Data>(field));
          }
        },
        help);
  }

  OptionRow<Options> row_;
};

template <typename Options>
void AddGroup(OptionTable<Options>& table, const char* group,
              std::initializer_list<Row<Options>> rows) {
  for (const Row<Options>& row : rows) table.push_back(Row<Options>(row).Finish(group));
}

// Rows that several tasks have, with the same name, range, help and identity in each.

template <typename Options>
Row<Options> MaxNewRow() {
  return Row<Options>::Whole("max_new", &Options::max_new, "Maximum number of tokens of an answer")
      .From(1)
      .Unit("tokens")
      .Alias("max_tokens")
      .OverHttp("max_tokens")
      .Limit(ServerLimit::kTokens)
      .Identity();
}

template <typename Options>
Row<Options> StopRow() {
  return Row<Options>::Texts("stop", &Options::stop, "A text that ends an answer; may be repeated")
      .Elsewhere("A text, or several, that ends an answer")
      .MostTexts(16)
      .Identity();
}

template <typename Options>
Row<Options> ChatRow() {
  return Row<Options>::Name("chat", &Options::chat, ChatNames(),
                            "The model's chat template: auto, on or off")
      .Identity();
}

}  // namespace banyan
