"""The `ag-news` task."""
