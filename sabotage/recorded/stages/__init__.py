"""What scenes stand on: machines in a world of chance, desks at which functions are asked, and props."""
