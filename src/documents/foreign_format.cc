#include "documents/foreign_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace banyan {
namespace {

// A format that people have and we do not read, and the one command that converts it: {in} is the
// file, {out} its name with the ending `becomes`.
struct Foreign {
  std::string_view ending, what, command, becomes;
};

constexpr std::string_view kPandas =
    "python3 -c \"import pandas, sys; pandas.read_feather(sys.argv[1]).to_json(sys.argv[2], "
    "orient='records', lines=True)\" {in} {out}";
// Of what the Python package reads: the same command with another beginning.
constexpr std::string_view kPythonPackage = "";
constexpr std::string_view kOfficeTable = "libreoffice --headless --convert-to csv {in}";
constexpr std::string_view kOfficeText = "libreoffice --headless --convert-to txt {in}";
constexpr std::string_view kPandoc = "pandoc -t plain {in} -o {out}";
constexpr std::string_view kTesseract = "tesseract {in} {out}";  // its text; writes {out}.txt

constexpr std::array kForeign = {
    Foreign{".parquet", "Parquet", kPythonPackage, ""},
    Foreign{".feather", "Feather", kPandas, ".jsonl"},
    Foreign{".arrow", "Arrow", kPandas, ".jsonl"},
    Foreign{".bz2", "packed by bzip2", "bunzip2 -k {in}", ""},
    Foreign{".xz", "packed by xz", "unxz -k {in}", ""},
    Foreign{".lz4", "packed by lz4", "unlz4 {in}", ""},
    Foreign{".zip", "a ZIP archive", "unzip {in} -d {out}", ""},
    Foreign{".7z", "a 7-Zip archive", "7z x {in} -o{out}", ""},
    Foreign{".tar", "a tar archive", "mkdir {out} && tar xf {in} -C {out}", ""},
    Foreign{".tgz", "a tar archive", "mkdir {out} && tar xf {in} -C {out}", ""},
    Foreign{".xlsx", "a spreadsheet", kOfficeTable, ".csv"},
    Foreign{".xls", "a spreadsheet", kOfficeTable, ".csv"},
    Foreign{".ods", "a spreadsheet", kOfficeTable, ".csv"},
    Foreign{".docx", "a Word document", kPandoc, ".txt"},
    Foreign{".doc", "a Word document", kOfficeText, ".txt"},
    Foreign{".odt", "an OpenDocument text", kPandoc, ".txt"},
    Foreign{".rtf", "a rich text", kPandoc, ".txt"},
    Foreign{".epub", "an e-book", kPandoc, ".txt"},
    Foreign{".pptx", "a presentation", kOfficeText, ".txt"},
    Foreign{".png", "an image", kTesseract, ""},
    Foreign{".jpg", "an image", kTesseract, ""},
    Foreign{".jpeg", "an image", kTesseract, ""},
    Foreign{".tif", "an image", kTesseract, ""},
    Foreign{".tiff", "an image", kTesseract, ""},
    Foreign{".gif", "an image", kTesseract, ""},
    Foreign{".webp", "an image", kTesseract, ""},
    Foreign{".bmp", "an image", kTesseract, ""},
};

void Replace(std::string& text, std::string_view mark, std::string_view with) {
  for (size_t at = text.find(mark); at != std::string::npos;
       at = text.find(mark, at + with.size())) {
    text.replace(at, mark.size(), with);
  }
}

std::string LowerName(std::string_view path) {
  std::string name(path.substr(path.rfind('/') + 1));
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

}  // namespace

std::string ShellWord(const std::string& text) {
  const bool plain = std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) ||
           std::string_view("/._-+=:@%,").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain && !text.empty()) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

std::string ForeignAdvice(const std::string& path) {
  const std::string name = LowerName(path);
  for (const Foreign& foreign : kForeign) {
    if (!name.ends_with(foreign.ending)) continue;
    if (foreign.command == kPythonPackage) {
      return fmt::format(
          "{}, which the Python package reads: the same command with python3 -m banyan instead of "
          "banyan (pip install 'banyan-engine[arrow]')",
          foreign.what);
    }
    std::string command(foreign.command);
    const std::string stem = path.substr(0, path.size() - foreign.ending.size());
    Replace(command, "{in}", ShellWord(path));
    Replace(command, "{out}", ShellWord(stem + std::string(foreign.becomes)));
    return fmt::format("{}, which is not read here{}{}", foreign.what, kConvertIt, command);
  }
  return {};
}

}  // namespace banyan
