# The page that `extract --report` writes.
set(report ${CMAKE_SOURCE_DIR}/src/tasks/extract/extract_report)
banyan_embed(banyan_tasks kReportFiles ${report}.html ${report}.css ${report}.js)
