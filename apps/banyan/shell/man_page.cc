// banyan man: manual pages (roff), made from the definitions of the command line. Hidden from the
// help.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "banyan/error.h"
#include "banyan/version.h"
#include "program.h"
#include "shell/completion.h"
#include "shell/option_words.h"
#include "terminal/terminal.h"

namespace banyan::app {
namespace {

// "banyan-bench-forest": the page's name, without its section (1).
std::string ManPageName(const CLI::App& command) {
  std::string name = FullName(command);
  std::ranges::replace(name, ' ', '-');
  return name;
}

constexpr const char* kEnvironment = R"(.SH ENVIRONMENT
.TP
.B BANYAN_MODEL
The model without \fB\-m\fR: a path or a name.
.TP
.B BANYAN_CACHE
Where fetched models are kept; otherwise \fB$XDG_CACHE_HOME/banyan\fR, otherwise \fB~/.cache/banyan\fR.
.TP
.BR HF_HUB_CACHE ", " HF_HOME
Where the Hugging Face cache is; otherwise \fB~/.cache/huggingface/hub\fR.
.SH EXIT STATUS
0: everything was done; 1: some rows failed, or the job was stopped; 2: nothing could be done. A job
that a signal stopped ends with 128 and the signal's number.
)";

// One character of UTF-8 at text[at], which moves behind it.
std::string Character(const std::string& text, size_t& at) {
  const unsigned char lead = static_cast<unsigned char>(text[at]);
  if (lead < 0x80) return std::string(1, text[at++]);
  const int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
  unsigned code = lead & (0x3Fu >> more);
  ++at;
  for (int i = 0; i < more && at < text.size(); ++i, ++at) {
    code = code << 6 | (static_cast<unsigned char>(text[at]) & 0x3Fu);
  }
  return fmt::format("\\[u{:04X}]", code);
}

// Text in which nothing is a request of roff, on a line of its own or within one.
std::string Escaped(const std::string& text) {
  std::string escaped;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    const bool line_begins = at == 0 || text[at - 1] == '\n';
    if (line_begins && (c == '.' || c == '\'')) escaped += "\\&";
    const std::string character = Character(text, at);
    if (c == '\\') {
      escaped += "\\e";
    } else if (c == '-') {
      escaped += "\\-";
    } else if (c == '\'') {
      escaped += "\\(aq";
    } else if (c == '`') {
      escaped += "\\(ga";
    } else if (c == '^') {
      escaped += "\\(ha";
    } else if (c == '~') {
      escaped += "\\(ti";
    } else {
      escaped += character;
    }
  }
  return escaped;
}

std::string Upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

std::string Synopsis(const CLI::App& command) {
  std::string text = fmt::format(".B {}\n", Escaped(FullName(command)));
  if (!ShownCommands(command).empty()) return text + "\\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n";
  text += "[\\fIOPTIONS\\fR]";
  for (const CLI::Option* option : ShownOptions(command)) {
    if (!option->get_positional()) continue;
    const char* more = option->get_items_expected_max() > 1 ? "..." : "";
    const std::string name = fmt::format("\\fI{}\\fR{}", Escaped(option->get_name(true)), more);
    text += option->get_required() ? " " + name : " [" + name + "]";
  }
  return text + "\n";
}

std::string OptionEntry(const CLI::Option& option) {
  std::string text = ".TP\n";
  const std::string placeholder = ValueOf(option).placeholder;
  const bool argument = !option.nonpositional();
  text += fmt::format("\\f{}{}\\fR", argument ? 'I' : 'B', Escaped(NamesOf(option)));
  if (!argument && !placeholder.empty()) text += fmt::format(" \\fI{}\\fR", Escaped(placeholder));
  return text + "\n" + Escaped(DescriptionOf(option)) + "\n";
}

// Arguments first, then the groups in the order of the help.
std::string Options(const CLI::App& command) {
  std::string text;
  const std::vector<const CLI::Option*> options = ShownOptions(command);
  const auto entries = [&](const std::string& heading, auto belongs) {
    std::string entries_text;
    for (const CLI::Option* option : options) {
      if (belongs(*option)) entries_text += OptionEntry(*option);
    }
    if (!entries_text.empty()) text += heading + entries_text;
  };
  entries(".SH ARGUMENTS\n", [](const CLI::Option& option) { return !option.nonpositional(); });
  text += ".SH OPTIONS\n";
  for (const std::string& group : command.get_groups()) {
    if (group.empty()) continue;
    const std::string heading = group == "Options" ? "" : fmt::format(".SS {}\n", Escaped(group));
    entries(heading, [&](const CLI::Option& option) {
      return option.nonpositional() && option.get_group() == group;
    });
  }
  return text;
}

// The text that ends the help, as it stands. A line alone before indented ones is a heading.
std::string Footer(const std::string& footer) {
  std::vector<std::string> lines;
  std::istringstream stream(footer);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  std::string text;
  bool open = false;  // within literal lines
  for (size_t i = 0; i < lines.size(); ++i) {
    const bool heading = !lines[i].empty() && lines[i][0] != ' ' && lines[i].size() < 30 &&
                         i + 1 < lines.size() && lines[i + 1].starts_with("  ") &&
                         (i == 0 || lines[i - 1].empty() || lines[i - 1][0] == ' ');
    if (heading) {
      if (open) text += ".fi\n";
      text += fmt::format(".SH {}\n.nf\n", Escaped(Upper(lines[i])));
      open = true;
      continue;
    }
    if (lines[i].empty() && !open) continue;
    if (!open) text += ".SH DESCRIPTION\n.nf\n";
    open = true;
    text += lines[i].empty() ? ".sp\n" : Escaped(lines[i]) + "\n";
  }
  if (open) text += ".fi\n";
  return text;
}

std::string Commands(const CLI::App& command) {
  const std::vector<const CLI::App*> commands = ShownCommands(command);
  if (commands.empty()) return "";
  std::string text = ".SH COMMANDS\n";
  for (const CLI::App* sub : commands) {
    text += fmt::format(".TP\n.BR {} (1)\n{}\n", Escaped(ManPageName(*sub)),
                        Escaped(sub->get_description()));
  }
  return text;
}

std::string ManPage(const CLI::App& command, const std::string& version) {
  const std::string name = ManPageName(command);
  std::string text = fmt::format(".TH {} 1 \"\" \"banyan {}\" \"Banyan\"\n", Escaped(Upper(name)),
                                 Escaped(version));
  text += fmt::format(".SH NAME\n{} \\- {}\n", Escaped(name), Escaped(command.get_description()));
  text += ".SH SYNOPSIS\n" + Synopsis(command);
  text += Commands(command) + Options(command) + Footer(command.get_footer());
  const CLI::App* parent = command.get_parent();
  if (parent == nullptr) return text + kEnvironment;
  return text + fmt::format(".SH SEE ALSO\n.BR {} (1)\n", Escaped(ManPageName(*parent)));
}

// banyan completion and banyan man: for packages and for shells, hidden from the help.

void WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text << std::flush;
  if (!file) throw Error(ErrorKind::kIo, fmt::format("{}: cannot write the file", path));
}

int WriteManPages(const CLI::App& root, const std::string& folder, const std::string& page) {
  if (page.empty() == folder.empty()) {
    throw Error(ErrorKind::kUsage,
                "man: expected either a page, such as banyan-ask, or --all FOLDER");
  }
  bool found = false;
  for (const TypedCommand& command : TypedCommands(root)) {
    const std::string name = ManPageName(*command.app);
    if (!folder.empty()) {
      WriteFile(fmt::format("{}/{}.1", folder, name), ManPage(*command.app, BANYAN_VERSION));
    } else if (name == page) {
      Print(ManPage(*command.app, BANYAN_VERSION));
      found = true;
    }
  }
  if (folder.empty() && !found) {
    throw Error(ErrorKind::kUsage, fmt::format("man: no page '{}', such as banyan-ask", page));
  }
  return 0;
}

}  // namespace

Command AddMan(CLI::App& app) {
  CLI::App* command = app.add_subcommand("man", "Print a manual page as roff, or write them all");
  auto folder = std::make_shared<std::string>();
  auto page = std::make_shared<std::string>();
  command->add_option("page", *page, "Such as banyan-ask");
  command->add_option("--all", *folder, "Write every page into this folder");
  return [folder, page, &app] { return WriteManPages(app, *folder, *page); };
}

}  // namespace banyan::app
